"""The limits one by one, in the user's words, and the same conditions with only some of them.

A limit is what a user can let go of on its own: a column that is frozen (a category as a whole, or one value of it), one side
of its bounds, a direction, a grid, a group of one-hot columns, a rule, and the number of changes. What the model's own pipeline
demands (a category has one of its values, a number stays where a logarithm is defined) is no limit in this sense, and is
always kept.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ifonly.model.columns import Column
from ifonly.model.numerics import Flags, Indices
from ifonly.problem.actions import Actions, ResolvedActions
from ifonly.problem.conditions import Conditions
from ifonly.problem.cost import Cost
from ifonly.problem.limits import Limits, Uneven

__all__ = ["EachLimit", "Limit", "group_name", "restricted"]

MOST_VALUES = 6  # of a group that are named


class Limit(NamedTuple):
    """One limit.

    Its kind is "frozen"; "low" or "high", a side of bounds; "rise" or "fall", the direction that is left; "grid", whole numbers
    and multiples; "flag", 0 or 1; "group", one of a group; "rule"; or "changes", how many there may be. All but the words are
    of the model's features, which fall where a user's column rises if the pipeline turns it round.
    """

    kind: str
    words: str  # as the user would say it
    where: tuple[int, ...]  # the features; of a rule, its number


class EachLimit:
    """The limits of some conditions.

    With ``simple``, `only` takes the simplest cost there is: enough for what is possible at all, whatever it costs.
    """

    def __init__(self, conditions: Conditions, *, simple: bool = False) -> None:
        self.conditions = conditions
        self.model, self.limits = conditions.model, conditions.limits
        self.cost = Cost(scale=conditions.per_unit) if simple else conditions.cost
        self.own: Limits = Actions().resolve(self.model)  # what the pipeline demands
        self.columns: dict[int, Column] = {int(d): c for c in self.model.encoding.columns for d in c.coordinates}

    def __len__(self) -> int:
        return len(self.all)

    @cached_property
    def all(self) -> tuple[Limit, ...]:
        """Every limit, the likelier ones to be in the way first: frozen columns, bounds, rules, …, the number of changes."""
        kinds = (self._frozen, self._bounds, self._directions, self._rules, self._grids, self._user_groups, self._changes)
        return tuple(limit for found in kinds for limit in found())

    # ---- in words ----

    def _frozen(self) -> list[Limit]:
        limits, called, words = self.limits, self.model.feature_called, self.model.words
        wholes = [(f"{words.name(c.name)} is frozen", c.coordinates) for c in self.model.encoding.columns]
        for group in self.groups:
            name, values, grouped = self._group(group)
            wholes.append((f"{name} is frozen" if grouped else f"{', '.join(values)} are frozen", group))
        found, said = [], np.zeros(len(limits.frozen), dtype=bool)
        for text, features in wholes:
            if limits.frozen[features].all():
                found.append(Limit("frozen", text, tuple(features.tolist())))
                said[features] = True
        return found + [Limit("frozen", f"{called(d)} is frozen", (d,)) for d in np.flatnonzero(limits.frozen & ~said).tolist()]

    def _bounds(self) -> list[Limit]:
        limits, own = self.limits, self.own
        found = []
        for d in np.flatnonzero(((limits.lo > own.lo) | (limits.hi < own.hi)) & ~self._flags).tolist():
            for kind, ends, loosest in (("low", limits.lo, own.lo), ("high", limits.hi, own.hi)):
                if ends[d] != loosest[d]:
                    at_least = (kind == "low") == self._rising(d)
                    words = f"{self.model.feature_called(d)} {'≥' if at_least else '≤'} {self._value(d, float(ends[d]))}"
                    found.append(Limit(kind, words, (d,)))
        return found

    def _directions(self) -> list[Limit]:
        limits, own = self.limits, self.own

        def words(d: int, kind: str) -> str:
            name, column = self.model.feature_called(d), self.columns.get(d)
            if column is not None and column.kind == "category":
                return f"{name} may not be chosen"
            return f"{name} may only {'rise' if (kind == 'rise') == self._rising(d) else 'fall'}"

        return [
            Limit(kind, words(d, kind), (d,))
            for kind, flags, always in (("rise", limits.increase, own.increase), ("fall", limits.decrease, own.decrease))
            for d in np.flatnonzero(flags & ~always).tolist()
        ]

    def _rules(self) -> list[Limit]:
        return [Limit("rule", self.limits.rule(i), (i,)) for i in range(len(self.limits.C))]

    def _grids(self) -> list[Limit]:
        called, found = self.model.feature_called, []
        for d, step in sorted(self._steps.items()):
            if self._flags[d]:
                found.append(Limit("flag", f"{called(d)} is 0 or 1", (d,)))
            else:
                what = "a whole number" if step == 1 else f"a multiple of {step:g}"
                found.append(Limit("grid", f"{called(d)} is {what}", (d,)))
        return found

    def _user_groups(self) -> list[Limit]:
        found = []
        for group in self.groups:
            name, values, grouped = self._group(group)
            some = ", ".join(values[:MOST_VALUES]) + (", …" if len(values) > MOST_VALUES else "")
            words = f"{name} is one of {some}" if grouped else f"exactly one of {some} is 1"
            found.append(Limit("group", words, tuple(group.tolist())))
        return found

    def _changes(self) -> list[Limit]:
        most = self.conditions.max_changes
        return [] if most is None else [Limit("changes", f"at most {most} change{'' if most == 1 else 's'}", ())]

    def _group(self, group: Indices) -> tuple[str, list[str], bool]:
        """A group of one-hot columns as people call it, and its values; or these alone, where they have no name in common."""
        labels, words = [self.model.feature_label(int(d)) for d in group], self.model.words
        name, values = group_name(labels)
        if values == tuple(labels):
            return "", [words.name(label) for label in labels], False
        return words.name(name), [str(words.value(name, value)) for value in values], True

    def _rising(self, d: int) -> bool:
        """Whether the user's column rises with the feature."""
        return d not in self.columns or self.columns[d].rising

    def _value(self, d: int, at: float) -> str:
        """A feature's value as the user has it."""
        column = self.columns.get(d)
        value: Any = at if column is None or column.kind == "category" else column.write(np.array([[at]]))[0]
        words, name = self.model.words, self.model.feature_label(d) if column is None else column.name
        if isinstance(value, (int, float)):
            return " ".join(filter(None, (f"{value:g}", words.of(name).unit)))
        return str(words.value(name, value))

    # ---- what is the user's ----

    @cached_property
    def groups(self) -> tuple[Indices, ...]:
        """The groups that are not the pipeline's own categories."""
        own = {tuple(group.tolist()) for group in self.own.groups}
        return tuple(group for group in self.limits.groups if tuple(group.tolist()) not in own)

    @cached_property
    def _steps(self) -> dict[int, float]:
        """The grids: feature → step, in the user's units."""
        in_groups = {int(d) for group in self.groups for d in group}
        steps = self.limits.step.copy()
        for part in self.limits.uneven:
            steps[part.feature] = part.step
        return {d: float(steps[d]) for d in np.flatnonzero(steps != self.own.step).tolist() if d not in in_groups}

    @cached_property
    def _flags(self) -> Flags:
        """The features that are 0 or 1, and nothing else is said of them: one limit, not three."""
        limits, own = self.limits, self.own
        found = (limits.lo == 0) & (limits.hi == 1) & (limits.step == 1) & (own.lo < 0) & (own.hi > 1)
        for group in limits.groups:
            found[group] = False
        return found

    # ---- only some of them ----

    def only(self, kept: Sequence[int]) -> Conditions:
        """The conditions with these limits, by their numbers in `all`, and no others but the pipeline's."""
        limits, own = self.limits, self.own
        of: defaultdict[str, list[int]] = defaultdict(list)  # where they are, by kind
        for i in sorted(kept):
            of[self.all[i].kind].extend(self.all[i].where)
        names = ("lo", "hi", "step", "frozen", "increase", "decrease")
        lo, hi, step, frozen, increase, decrease = (getattr(own, name).copy() for name in names)
        low, high, grids = ([*of[kind], *of["flag"]] for kind in ("low", "high", "grid"))
        lo[low], hi[high], step[grids] = limits.lo[low], limits.hi[high], limits.step[grids]
        frozen[of["frozen"]], increase[of["rise"]], decrease[of["fall"]], step[of["group"]] = True, True, True, 1.0
        uneven = self._uneven(set(grids), frozen)
        step[[part.feature for part in uneven]] = 0.0
        groups = (*(group for group in self.groups if int(group[0]) in of["group"]), *own.groups)
        rules = sorted(of["rule"])
        C, rest, equal = limits.C[rules], limits.rest[rules], limits.equal[rules]
        found = Limits(self.model, lo, hi, frozen, increase, decrease, step, groups, C, rest, equal, uneven)
        most = self.conditions.max_changes if "changes" in of else None
        return replace(self.conditions, cost=self.cost, actions=ResolvedActions(limits=found), max_changes=most)

    def _uneven(self, grids: set[int], frozen: Flags) -> tuple[Uneven, ...]:
        """Numbers at uneven distances: those of the pipeline, and mapped ones with a grid of the user's."""
        jumps = {part.feature: part for part in self.own.uneven}
        mapped = {d: Uneven(d, c, self._steps[d]) for d, c in self.columns.items() if c.maps and d in grids}
        return tuple(part for d, part in sorted((jumps | mapped).items()) if not frozen[d])


def restricted(conditions: Conditions, frozen: Flags) -> Conditions:
    """The same conditions with these features frozen besides."""
    limits = conditions.limits
    frozen = limits.frozen | frozen
    uneven = tuple(part for part in limits.uneven if not frozen[part.feature])
    return replace(conditions, actions=ResolvedActions(limits=replace(limits, frozen=frozen, uneven=uneven)))


def group_name(labels: list[str]) -> tuple[str, tuple[str, ...]]:
    """A name for a group of one-hot columns, and names for its values: ``job=a``, ``job=b`` are job, and a and b."""
    stem = labels[0]
    while not all(label.startswith(stem) for label in labels):
        stem = stem[:-1]
    cut = max((stem.rfind(mark) + len(mark) for mark in ("=", "_", ": ", ".", " ") if mark in stem), default=0)
    if cut < 2:
        return "one of " + ", ".join(labels), tuple(labels)
    return stem[:cut].rstrip("=_:. "), tuple(label[cut:] for label in labels)
