"""Makes the pictures of docs/gallery.md from the code on that page: ``python docs/gallery.py``."""

import re
from pathlib import Path

PAGE = Path(__file__).with_name("gallery.md")
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n!\[[^\]]*\]\(([^)]+)\))?", re.DOTALL)
DOTS = 110  # per inch: 600 to 700 pixels wide


def blocks() -> list[tuple[str, str]]:
    """Every block of code on the page, with the picture that follows it (or "")."""
    return BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def main() -> None:
    """Run the page from top to bottom, saving a picture where it shows one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names: dict[str, object] = {}
    for code, picture in blocks():
        exec(code, names)
        if picture:
            plt.gcf().savefig(PAGE.parent / picture, dpi=DOTS, facecolor="white", metadata={"Software": None})
            plt.close("all")


if __name__ == "__main__":
    main()
