"""The script that runs the examples and makes pages of them."""

import importlib.util
import json

import pytest
from helpers.data import DOCS, ROOT, page


@pytest.fixture(scope="module")
def notebooks():
    spec = importlib.util.spec_from_file_location("docs_notebooks", DOCS / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = """# %% [markdown]
# # A title
#
# Words.

# %%
import matplotlib.pyplot as plt
print("six", 2 * 3)

# %%
class Shown:
    def _repr_html_(self):
        return "<b>seven</b>"
Shown()

# %%
plt.plot([1, 2])

# %%
8 + 1
"""


@pytest.fixture
def one(notebooks, tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "EXAMPLES", tmp_path)
    (tmp_path / "one.py").write_text(SCRIPT)
    return notebooks


def test_a_page_shows_what_the_cells_print_return_and_draw(one, tmp_path):
    import matplotlib.pyplot as plt

    plt.figure()  # one that somebody left open
    found = one.run("one")
    assert [(cell.code, [kind for kind, _ in cell.outputs]) for cell in found] == [
        (False, []),
        (True, ["text"]),
        (True, ["html"]),
        (True, ["picture"]),
        (True, ["text"]),
    ]
    text = one.page("one", found, tmp_path)
    assert text.startswith("# A title\n\nWords.\n\n```python\nimport matplotlib")
    assert "\nsix 6\n" in text
    assert "<b>seven</b>" in text
    assert "\n9\n" in text
    assert (tmp_path / "one-1.png").read_bytes().startswith(b"\x89PNG")


def test_the_notebook_has_the_same_cells_and_outputs(one):
    made = json.loads(one.notebook(one.run("one")))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", *["code"] * 4]
    assert [list(out["data"]) for cell in made["cells"][1:] for out in cell["outputs"]] == [
        ["text/plain"],
        ["text/html"],
        ["image/png"],
        ["text/plain"],
    ]


def test_an_error_says_which_cell_it_came_from(one, tmp_path):
    (tmp_path / "one.py").write_text(SCRIPT + "\n# %%\n1 / 0\n")
    with pytest.raises(ZeroDivisionError) as error:
        one.run("one")
    assert error.value.__notes__ == ["in cell 5 of examples/one.py, which begins\n1 / 0"]


def test_every_example_with_cells_is_in_the_gallery(notebooks):
    text = page("notebooks.md")
    assert len(notebooks.names()) >= 5
    for name in notebooks.names():
        assert f"(notebooks/{name}.md)" in text
        assert f"\nnotebooks/{name}\n" in text
        script = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
        assert "*Needs:* `pip install" in notebooks.cells(script)[0].source
