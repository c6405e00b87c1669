"""Multipliers for sets of points."""

import numpy as np

from ifonly import Actions, Cost, Model
from ifonly.engines.budget import Budget
from ifonly.engines.cost_problem import CostProblem
from ifonly.engines.cost_space import CostSpace
from ifonly.engines.relaxing import Relaxing
from ifonly.engines.searched import dual_of
from ifonly.problem.asked import Aim
from ifonly.problem.conditions import Conditions
from ifonly.problem.proof import Multipliers


def test_nothing_pulls_where_nothing_ends_though_a_rival_counted_for_next_to_nothing():
    """Features with weights 1e7 apart and no bounds: a pull of a millionth would move a score by a hundred."""
    model = Model([[393.0, 1.49e-4], [484.0, -9.3e-5], [-229.0, -7e-5], [0.0, 0.0]], np.zeros(4))
    problem, aim = CostProblem(CostSpace(Conditions(model, actions=Actions())), np.zeros(2), 3), Aim(3, None, 0.9)
    relaxing = Relaxing(problem, dual_of(problem, aim), Budget(), farthest=True)
    y = relaxing._ended(Multipliers(np.array([1e-10, 0.32, 0.68]), np.zeros(0)), (problem.lo, problem.hi)).y
    assert (np.abs(y @ relaxing.dual.S) <= 4e-16 * (y @ np.abs(relaxing.dual.S))).all()
    assert y.min() > 0.01


def test_nothing_is_said_on_the_terminal_where_tied_features_cannot_move(capfd):
    """LAPACK prints what it does not like about an empty matrix."""
    model = Model(np.eye(2), np.zeros(2))
    space = CostSpace(Conditions(model, Cost(matrix=[[2.0, 1.0], [1.0, 2.0]])))
    assert space.inverse(np.zeros(2, dtype=bool)).shape == (0, 0)
    np.testing.assert_allclose(
        space.inverse(np.ones(2, dtype=bool)) @ np.linalg.cholesky(space.conditions.matrix).T, np.eye(2), atol=1e-15
    )
    assert capfd.readouterr() == ("", "")
