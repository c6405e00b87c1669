"""The what-if page and its JSON API: `ifonly serve`."""
