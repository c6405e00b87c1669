"""An answer as one HTML file that needs nothing else: a slider for the wanted probability, and all that follows from it."""

from ifonly.show.page.html import html, write

__all__ = ["html", "write"]
