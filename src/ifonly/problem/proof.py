"""Proofs by cases: a tree of cuts whose leaves each have multipliers, and what it proves.

The tree stands in preorder: a `Cut`, then all of its first part, then all of its second; a `Leaf` says which multipliers
are its own, and what they prove: a bound on what is minimised, or that nothing in the leaf meets the goal. Whoever checks a
proof makes the leaves again from what the limits allow, and the bound of each from its multipliers: with floats (`choices`,
`dual`), or with fractions (`exactly`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.model.errors import InputError
from ifonly.model.numerics import Floats

__all__ = ["MOVES", "OPEN", "STAYS", "Cut", "Leaf", "Multipliers", "Node", "Proof", "Proved"]

KINDS = ("value", "move", "option")
OPEN, STAYS, MOVES = 0, 1, 2  # of an item, where only some may move: undecided, stays, counts among those that move


class Node(NamedTuple):
    """A set of points: x_d from lo_d to hi_d that the limits allow there, with items that stay, or that count as moved."""

    lo: Floats  # (D,), in the user's units
    hi: Floats
    state: NDArray[np.int8]  # (items,)


class Cut(NamedTuple):
    """One of three: ``x_d ≤ below | x_d ≥ above``; item d stays | moves; group d is one of ``options`` | of the others."""

    kind: str  # "value", "move", "option"
    d: int
    below: float = 0.0
    above: float = 0.0
    options: tuple[int, ...] = ()


class Multipliers(NamedTuple):
    """y of the rivals, ν of the linear rules, and Δ° where the cost has a matrix."""

    y: Floats
    nu: Floats
    at: Floats | None = None


class Leaf(NamedTuple):
    """Which multipliers, −1 for none (the leaf has no point), and whether they are about the goal alone."""

    multipliers: int
    reach: bool = False


class Proved(NamedTuple):
    """What a proof proves: that nothing is below ``bound``; where nothing meets the goal (it is infinite), by how much."""

    bound: Any
    missed: Any  # the goal, by every point: in logits for a probability, in scores for a margin


@dataclass(frozen=True, eq=False)
class Proof:
    """What shows that an answer is the best, or that there is none."""

    tree: tuple[Cut | Leaf, ...]  # in preorder
    multipliers: tuple[Multipliers, ...]  # those that leaves name

    def __len__(self) -> int:
        return len(self.tree)

    @property
    def n_leaves(self) -> int:
        """How many cases there are."""
        return (len(self.tree) + 1) // 2

    def to_dict(self) -> dict[str, Any]:
        """As plain data: cuts are lists that begin with their kind, leaves are numbers, those about the goal [number]."""
        return {
            "tree": [_entry_to(entry) for entry in self.tree],
            "multipliers": [[None if part is None else part.tolist() for part in m] for m in self.multipliers],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Proof":
        """From what :meth:`to_dict` gave."""
        if set(data) != {"tree", "multipliers"}:
            raise InputError("the record is damaged: a proof has a tree and multipliers")
        multipliers = tuple(
            Multipliers(_floats(y), _floats(nu), None if at is None else _floats(at)) for y, nu, at in data["multipliers"]
        )
        return cls(tuple(_entry_from(entry) for entry in data["tree"]), multipliers)


def _floats(values: Any) -> Floats:
    if not isinstance(values, list) or not all(type(v) in (int, float) for v in values):
        raise InputError(f"the record is damaged: {str(values)[:100]} are no multipliers")
    return np.array(values, dtype=np.float64)


def _entry_to(entry: Cut | Leaf) -> Any:
    if isinstance(entry, Leaf):
        return [entry.multipliers] if entry.reach else entry.multipliers
    more = {"value": [entry.below, entry.above], "move": [], "option": list(entry.options)}
    return [entry.kind, entry.d, *more[entry.kind]]


def _entry_from(entry: Any) -> Cut | Leaf:
    whole = [entry] if isinstance(entry, int) else entry
    if isinstance(whole, list) and len(whole) == 1 and type(whole[0]) is int:
        return Leaf(whole[0], reach=whole is entry)
    if isinstance(whole, list) and len(whole) >= 2 and whole[0] in KINDS and type(whole[1]) is int:
        kind, d, more = str(whole[0]), whole[1], whole[2:]
        if kind == "value" and len(more) == 2:
            below, above = _floats(more).tolist()
            return Cut(kind, d, below, above)
        if kind == "option" and more and all(type(o) is int for o in more):
            return Cut(kind, d, options=tuple(more))
        if kind == "move" and not more:
            return Cut(kind, d)
    raise InputError(f"the record is damaged: {str(entry)[:100]} is no part of a proof")
