"""What is asked, and what an answer is worth: slow, obvious, and without a solver."""

from ifonly.problem.free import Certificate, Problem

__all__ = ["Certificate", "Problem"]
