"""Many rows at once. The seam: class-space data of N sources in, class-space answers out; D is on neither side.

A kernel is a function with the signature of `loop.solve_rows`. It is given ``Z = X rowsᵀ`` and ``‖x̄‖`` for N sources, the class
index each is to reach (−1: the nearest other), and per row either λ or a probability, and returns `Rows`.
"""

from ifonly.kernels.loop import NEAREST, Rows, solve_row, solve_rows

__all__ = ["NEAREST", "Rows", "solve_row", "solve_rows"]
