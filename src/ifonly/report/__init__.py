"""An answer as one HTML file that needs nothing else: a slider for the wanted probability, and all that follows from it."""

from ifonly.report.page import html, write

__all__ = ["html", "write"]
