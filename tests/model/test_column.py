"""A column of numbers behind maps: what is written for a coordinate has one."""

import numpy as np
import pytest

from ifonly.model.columns import Column
from ifonly.model.monotone import Affine, Function


@pytest.mark.parametrize("function", ["log1p", "log", "sqrt", "exp", "tanh"])
def test_the_ends_of_a_map_behind_a_scaler_are_written_as_numbers_that_it_takes(rng, function):
    """Scaling a number that lies where a logarithm ends may round it to where there is none."""
    for _ in range(300):
        size = 10.0 ** rng.uniform(-6, 6)
        scaler = Affine(1.0, float(rng.normal()), float(rng.normal() * size), float(size * rng.choice([-1, 1])))
        column = Column(0, "x", "number", 0, maps=(scaler, Function(function)))
        ends = np.array(column.range)[:, None]
        assert np.isfinite(column.forward(np.array(column.write(ends)))).all()
