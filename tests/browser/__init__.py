"""Pages in a browser: one is started for all files of this folder."""
