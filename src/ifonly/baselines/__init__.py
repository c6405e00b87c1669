"""Methods to compare with, each to its own description and as fast as NumPy lets it be."""

from ifonly.baselines.newton import Run, feature_newton

__all__ = ["Run", "feature_newton"]
