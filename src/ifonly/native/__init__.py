"""Row loops: B sources with the same target in, class-space answers out; D is on neither side.

A loop is a pair of functions, ``solve_lam(gram, margins, lam, …)`` and ``solve_prob(gram, margins, window, …)``; each returns
`engines.row_loops.Solved`. `reference` states the algorithm as an array program, `lanes` compiles it, `cuda` compiles it for a
GPU, and `device` takes whole tables there. `few_and_rest`, `sums`, `intervals` and `one_multiplier` are the compiled twins of
other engines.
"""
