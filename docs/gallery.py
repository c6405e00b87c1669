"""Makes the pictures of docs/gallery.md from the code on that page: ``python docs/gallery.py`` (``--quick``: keeps none)."""

import re
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).with_name("gallery.md")
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n!\[[^\]]*\]\(([^)]+)\))?", re.DOTALL)
DOTS = 110  # per inch: 600 to 700 pixels wide


def blocks() -> list[tuple[str, str]]:
    """Every block of code on the page, with the picture that follows it (or "")."""
    return BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def main(folder: Path) -> None:
    """Run the page from top to bottom, saving a picture where it shows one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names: dict[str, object] = {}
    for code, picture in blocks():
        exec(code, names)
        if picture:
            file = folder / picture
            file.parent.mkdir(exist_ok=True)
            plt.gcf().savefig(file, dpi=DOTS, facecolor="white", metadata={"Software": None})
            plt.close("all")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as nowhere:
        main(Path(nowhere) if "--quick" in sys.argv else PAGE.parent)
