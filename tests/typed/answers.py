"""What a type checker says of answers: checked by pyright (`make lint`), never run."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_type

import numpy as np

import ifonly


def one_source(model: ifonly.Model, row: Mapping[str, Any], numbers: Sequence[float]) -> None:
    """A mapping and a list of numbers are one source each."""
    assert_type(ifonly.invert(model, row, "yes", prob=0.9), ifonly.Counterfactual)
    assert_type(ifonly.invert(model, numbers, "yes"), ifonly.Counterfactual)
    assert_type(ifonly.ask(model, "yes")(numbers), ifonly.Counterfactual)
    assert_type(ifonly.invert(model, numbers, "yes", n=3), ifonly.Counterfactuals)


def many_sources(model: ifonly.Model, rows: Sequence[Sequence[float]], records: list[dict[str, Any]]) -> None:
    """A list of rows is many."""
    cfs = ifonly.invert(model, rows, "yes")
    assert_type(cfs, ifonly.Counterfactuals)
    assert_type(cfs[0], ifonly.Counterfactual)
    assert_type(cfs[1:3], ifonly.Counterfactuals)
    assert_type(cfs[np.array([True, False])], ifonly.Counterfactuals)
    assert_type(ifonly.invert(model, records, "yes"), ifonly.Counterfactuals)


def an_array(model: ifonly.Model, x: np.ndarray) -> str:
    """The type of an array does not tell, and the answer checks as either."""
    return ifonly.invert(model, x, "yes").sentence()


def a_path(model: ifonly.Model, x: np.ndarray) -> None:
    """A path and its answers."""
    path = ifonly.path(model, x, "yes")
    assert_type(path, ifonly.Path)
    assert_type(path.at_prob(0.9), ifonly.Counterfactual)
