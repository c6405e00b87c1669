"""Sphinx configuration: ``python -m sphinx -W -b html docs docs/_build/html``. Builds without a network.

The examples are run first, and become the pages of docs/notebooks (``notebooks.py``); with ``QUICK=1`` at small sizes.
"""

import sys
from pathlib import Path

import ifonly

sys.path.insert(0, str(Path(__file__).parent))
import notebooks

project = "ifonly"
author = project_copyright = "the ifonly contributors"
version = release = ifonly.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"ifonly {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 2

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
napoleon_google_docstring = False

# Napoleon takes a property's "words: more words" for "type: description". So the colon is hidden from it.
COLON = "\N{MODIFIER LETTER COLON}"


def hide_colon(app, what, name, obj, options, lines):
    if what in ("property", "attribute") and lines:
        lines[0] = lines[0].replace(": ", f"{COLON} ")


def show_colon(app, what, name, obj, options, lines):
    lines[:] = [line.replace(f"{COLON} ", ": ") for line in lines]


def setup(app):
    app.connect("builder-inited", lambda app: notebooks.main())
    app.connect("autodoc-process-docstring", hide_colon, priority=400)
    app.connect("autodoc-process-docstring", show_colon, priority=600)
