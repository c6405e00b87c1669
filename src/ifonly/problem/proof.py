"""Proofs by cases: a tree of cuts whose leaves each have multipliers, and what it proves.

The tree stands in preorder: a `Cut`, then all of its first part, then all of its second; a `Leaf` says which multipliers
are its own, and what they prove: a bound on what is minimised, or that nothing in the leaf meets the goal. The leaves are made
here again from what the limits allow (`choices`), and the bound of each from its multipliers (`dual`): none of it is believed.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ifonly.model.errors import CertificateError, InputError
from ifonly.model.numerics import EPS, Floats
from ifonly.problem.choices import Cut, Node
from ifonly.problem.dual import Dual, Multipliers
from ifonly.problem.limited import LimitedProblem

__all__ = ["Leaf", "Proof", "Proved", "continuous_proof", "leaves_of", "misses", "prove"]

KINDS = ("value", "move", "option")


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


def continuous_proof(problem: LimitedProblem, x: Floats, prob: float | None, lam: float, multipliers: Floats | None) -> Proof:
    """The proof of an answer that took no search, from its λ and multipliers: one leaf."""
    n, m, margin = len(problem.rivals), len(problem.conditions.limits.C), problem.conditions.margin
    nu = problem.multipliers(multipliers)
    y = problem.proba(x)[0][problem.rivals]
    if margin is not None:
        y = nu[m : m + n]
    elif prob is not None:
        y, nu = (0.0 * y, nu) if math.isinf(lam) else (y / lam, nu / lam)
    else:
        y = y * (1 - (n + 2) * EPS)  # with that of the target they add up to 1, not to a rounding more
    at = None if problem.conditions.matrix is None else x - problem.source
    return Proof((Leaf(0),), (Multipliers(y, nu[:m], at),))


def prove(dual: Dual, proof: Proof, slack: float = 0.0) -> Proved:
    """What a proof proves of a problem; raises if it is none.

    ``slack`` is by how much a leaf may meet the goal that is said to miss it: what rounding eats of it counts for nothing.
    """
    bound, missed = math.inf, math.inf
    for node, leaf in leaves_of(dual, proof):
        if dual.empty(node):
            continue
        if not 0 <= leaf.multipliers < len(proof.multipliers):
            raise CertificateError("a leaf of the proof has points, but no multipliers")
        given = proof.multipliers[leaf.multipliers]
        found = dual.bound(node, given, reach=leaf.reach).value
        if not leaf.reach:
            bound = min(bound, found)
        elif found > -slack * float(given.y.sum()):
            missed = min(missed, _missed(dual, given, found))
        else:
            raise CertificateError(f"a leaf of the proof is said to miss the goal, and may meet it by {-found!r}")
    return Proved(bound, missed)


def _missed(dual: Dual, given: Multipliers, found: Any) -> Any:
    """By how much points miss the goal for which y·(what is missed) ≥ found; infinite where the limits allow no point."""
    total = dual.number(given.y).sum()
    return found / total if total > 0 else math.inf


def misses(dual: Dual, proof: Proof) -> bool:
    """Whether the leaves that are said to miss the goal do."""
    found = (
        dual.bound(node, proof.multipliers[leaf.multipliers], reach=True).value
        for node, leaf in leaves_of(dual, proof)
        if leaf.reach and not dual.empty(node)
    )
    return all(value > 0 for value in found)


def leaves_of(dual: Dual, proof: Proof) -> Iterator[tuple[Node, Leaf]]:
    """The leaves of a tree, each with its node."""
    nodes = [dual.choices.root]
    for entry in proof.tree:
        if not nodes:
            raise CertificateError("the proof goes on after its last leaf")
        node = nodes.pop()
        if isinstance(entry, Leaf):
            yield node, entry
        else:
            first, second = dual.choices.cut(node, entry)
            nodes += [second, first]
    if nodes:
        raise CertificateError(f"the proof leaves out {len(nodes)} of its cases")
