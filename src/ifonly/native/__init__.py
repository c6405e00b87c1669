"""Many rows at once. The seam: class-space data of N sources in, class-space answers out; D is on neither side.

A kernel is a pair of functions, ``solve_lam(gram, margins, lam, …)`` and ``solve_prob(gram, margins, goals, …)``, for B
sources with the same target; each returns `rows.Solved`. `reference` states the algorithm as an array program, `cpu`
compiles it, `cuda` compiles it for a GPU. `batch` does everything around them; `device` does it on the GPU.
"""

from ifonly.native.batch import choose_kernel, loaded_kernel, read_sources, solve_rows
from ifonly.native.rows import Kernel, Rows
from ifonly.native.single import solve_row

__all__ = ["Kernel", "Rows", "choose_kernel", "loaded_kernel", "read_sources", "solve_row", "solve_rows"]
