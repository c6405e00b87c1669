"""Proofs by cases: a tree of cuts whose leaves each have multipliers, and what it proves.

The tree stands in preorder: a `Cut`, then all of its first part, then all of its second; a `Leaf` says which multipliers
are its own, and what they prove: a bound on what is minimised, or that nothing in the leaf meets the goal. Whoever checks a
proof makes the leaves again from what the limits allow, and the bound of each from its multipliers: with floats (`choices`,
`dual`), or with fractions (`exactly`). What both share stands here: the walk and the cuts, which are comparisons and
round nothing.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ifonly.model.errors import CertificateError, InputError
from ifonly.model.numerics import Flags, Floats, Indices

__all__ = ["MOVES", "OPEN", "STAYS", "Cut", "Leaf", "Multipliers", "Node", "Proof", "Proved"]

KINDS = ("value", "move", "option")
OPEN, STAYS, MOVES = 0, 1, 2  # of an item, where only some may move: undecided, stays, counts among those that move


class Node(NamedTuple):
    """A set of points: x_d from lo_d to hi_d that the limits allow there, with items that stay, or that count as moved."""

    lo: Floats  # (D,), in the user's units
    hi: Floats
    state: NDArray[np.int8]  # (items,)

    def parts(
        self, cut: "Cut", groups: Sequence[Indices], adjacent: Callable[[int, float, float], bool]
    ) -> tuple["Node", "Node"]:
        """Its two parts, which together have all its points; raises if a cut leaves any out.

        ``adjacent`` says whether a feature has no value between two, the first of which is less.
        """
        first, second = (Node(self.lo.copy(), self.hi.copy(), self.state.copy()) for _ in range(2))
        d = cut.d
        if cut.kind == "value" and 0 <= d < len(self.lo):
            if not (cut.above <= cut.below or adjacent(d, cut.below, cut.above)):
                raise CertificateError(f"a cut leaves out what is between {cut.below!r} and {cut.above!r} of feature {d}")
            first.hi[d], second.lo[d] = min(self.hi[d], cut.below), max(self.lo[d], cut.above)
        elif cut.kind == "move" and 0 <= d < len(self.state) and self.state[d] == OPEN:
            first.state[d], second.state[d] = STAYS, MOVES
        elif cut.kind == "option" and 0 <= d < len(groups):
            these = np.isin(np.arange(len(groups[d])), cut.options)
            first.hi[groups[d][~these]], second.hi[groups[d][these]] = 0.0, 0.0
        else:
            raise CertificateError(f"there is no such cut: {cut}")
        return first, second


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

    def checked(self, n: int, equal: Flags, D: int) -> tuple[Floats, Floats, Floats]:
        """All three, for n rivals, rules some of which are ``equal``, and D features; raises if they prove nothing of these."""
        at = np.zeros(D) if self.at is None else self.at
        y, nu, at = (np.asarray(part, dtype=np.float64) for part in (self.y, self.nu, at))
        if (y.shape, nu.shape, at.shape) != ((n,), equal.shape, (D,)):
            raise CertificateError("the proof has too few or too many multipliers")
        if not all(np.isfinite(part).all() for part in (y, nu, at)) or (y < 0).any() or (nu[~equal] < 0).any():
            raise CertificateError("the proof has multipliers that are negative, or not finite")
        return y, nu, at


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

    def leaves(
        self, root: Node, cut: Callable[[Node, Cut], tuple[Node, Node]], empty: Callable[[Node], bool]
    ) -> Iterator[tuple[Node, Leaf]]:
        """Every leaf that has points, with its node, where the tree is of ``root``; raises if they are not all."""
        nodes = [root]
        for entry in self.tree:
            if not nodes:
                raise CertificateError("the proof goes on after its last leaf")
            node = nodes.pop()
            if not isinstance(entry, Leaf):
                nodes.extend(reversed(cut(node, entry)))
            elif not empty(node):
                yield node, entry
        if nodes:
            raise CertificateError(f"the proof leaves out {len(nodes)} of its cases")

    def proves(self, leaves: Iterable[tuple[Node, Leaf]], bound_of: Callable[..., tuple[Any, Any]], slack: Any) -> Proved:
        """What leaves prove together, from the bound and Σy of each; raises if one may meet its goal by ``slack`` times Σy."""
        bound, missed = math.inf, math.inf
        for node, leaf in leaves:
            if not 0 <= leaf.multipliers < len(self.multipliers):
                raise CertificateError("a leaf of the proof has points, but no multipliers")
            found, total = bound_of(node, self.multipliers[leaf.multipliers], leaf.reach)
            if not leaf.reach:
                bound = min(bound, found)
            elif found > -slack * total:
                missed = min(missed, found / total if total > 0 else math.inf)
            else:
                raise CertificateError(f"a leaf of the proof is said to miss the goal, and may meet it by {float(-found)!r}")
        return Proved(bound, missed)

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
