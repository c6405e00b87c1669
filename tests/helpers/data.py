"""Where files lie that tests read: the pages of docs, and data sets beside the checkout, where they exist at all."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DATA = ROOT.parent / "shared" / "data"


def data_file(*parts: str) -> Path:
    """A data file, or a visible skip that names it."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs {'/'.join(parts)} in ../shared/data, which is not here")
    return path


def page(name: str) -> str:
    """The text of a page of docs."""
    return (DOCS / name).read_text(encoding="utf-8")
