"""The limits one by one, in the user's words, and the same conditions with only some of them.

A limit is what a user can let go of on its own: a column that is frozen (a category as a whole, or one value of it), one side
of its bounds, a direction, a grid, a group of one-hot columns, a rule, and the number of changes. What the model's own pipeline
demands (a category has one of its values, a number stays where a logarithm is defined) is no limit in this sense, and is
always kept.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
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
    """The limits of some conditions."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions, self.model, self.limits = conditions, conditions.model, conditions.limits
        self.own = own = Actions().resolve(self.model)  # what the pipeline demands
        self.columns: dict[int, Column] = {int(d): c for c in self.model.encoding.columns for d in c.coordinates}
        limits, categories = self.limits, {tuple(group.tolist()) for group in own.groups}
        self.groups = [group for group in limits.groups if tuple(group.tolist()) not in categories]  # the user's own
        # The features that are 0 or 1, and nothing else is said of them: one limit, not three.
        flags = (limits.lo == 0) & (limits.hi == 1) & (limits.step == 1) & (own.lo < 0) & (own.hi > 1)
        self.flags: Flags = flags & ~conditions.grouped
        steps, in_groups = limits.step.copy(), np.isin(np.arange(len(flags)), np.concatenate([[], *self.groups]))
        for part in limits.uneven:
            steps[part.feature] = part.step
        different = np.flatnonzero((steps != own.step) & ~in_groups).tolist()
        self.steps = {d: float(steps[d]) for d in different}  # the user's grids: feature → step, in the user's units

    def __len__(self) -> int:
        return len(self.all)

    @cached_property
    def all(self) -> tuple[Limit, ...]:
        """Every limit, the likelier ones to be in the way first: frozen columns, bounds, rules, …, the number of changes."""
        most, ways = self.conditions.max_changes, (*self._frozen(), *self._bounds(), *self._directions())
        rules = (Limit("rule", self.limits.rule(i), (i,)) for i in range(len(self.limits.C)))
        changes = () if most is None else (Limit("changes", f"at most {most} change{'' if most == 1 else 's'}", ()),)
        return *ways, *rules, *self._grids(), *self._groups(), *changes

    # ---- in words ----

    def _frozen(self) -> Iterator[Limit]:
        wholes = [(f"{self.model.words.name(c.name)} is frozen", c.coordinates) for c in self.model.encoding.columns]
        for group in self.groups:
            name, values = self._group(group)
            wholes.append((f"{', '.join(values)} are frozen" if name is None else f"{name} is frozen", group))
        frozen = self.limits.frozen.copy()
        for text, features in wholes:
            if self.limits.frozen[features].all():
                yield Limit("frozen", text, tuple(features.tolist()))
                frozen[features] = False
        for d in np.flatnonzero(frozen).tolist():
            yield Limit("frozen", f"{self.model.feature_called(d)} is frozen", (d,))

    def _bounds(self) -> Iterator[Limit]:
        limits, own = self.limits, self.own
        for d in np.flatnonzero(((limits.lo > own.lo) | (limits.hi < own.hi)) & ~self.flags).tolist():
            for kind, ends, loosest in (("low", limits.lo, own.lo), ("high", limits.hi, own.hi)):
                if ends[d] != loosest[d]:
                    sense = "≥" if (kind == "low") == self._rising(d) else "≤"
                    yield Limit(kind, f"{self.model.feature_called(d)} {sense} {self._value(d, float(ends[d]))}", (d,))

    def _directions(self) -> Iterator[Limit]:
        limits, own = self.limits, self.own
        for kind, flags, always in (("rise", limits.increase, own.increase), ("fall", limits.decrease, own.decrease)):
            for d in np.flatnonzero(flags & ~always).tolist():
                way = "only rise" if (kind == "rise") == self._rising(d) else "only fall"
                chosen = d in self.columns and self.columns[d].kind == "category"
                yield Limit(kind, f"{self.model.feature_called(d)} may {'not be chosen' if chosen else way}", (d,))

    def _grids(self) -> Iterator[Limit]:
        for d, step in self.steps.items():
            what = "a whole number" if step == 1 else f"a multiple of {step:g}"
            kind, what = ("flag", "0 or 1") if self.flags[d] else ("grid", what)
            yield Limit(kind, f"{self.model.feature_called(d)} is {what}", (d,))

    def _groups(self) -> Iterator[Limit]:
        for group in self.groups:
            name, values = self._group(group)
            some = ", ".join(values[:MOST_VALUES]) + (", …" if len(values) > MOST_VALUES else "")
            words = f"exactly one of {some} is 1" if name is None else f"{name} is one of {some}"
            yield Limit("group", words, tuple(group.tolist()))

    def _group(self, group: Indices) -> tuple[str | None, list[str]]:
        """A group of one-hot columns as people call it, and its values; or these alone, where they have no name in common."""
        labels, words = [self.model.feature_label(int(d)) for d in group], self.model.words
        name, values = group_name(labels)
        if values == tuple(labels):
            return None, [words.name(label) for label in labels]
        return words.name(name), [str(words.value(name, value)) for value in values]

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

    # ---- only some of them ----

    def only(self, kept: Sequence[int]) -> Conditions:
        """The conditions with these limits, by their numbers in `all`, and no others but the pipeline's.

        At the simplest cost there is: it is about what is possible at all, whatever it costs.
        """
        limits, own = self.limits, self.own
        of: defaultdict[str, list[int]] = defaultdict(list)  # where they are, by kind
        for i in sorted(kept):
            of[self.all[i].kind].extend(self.all[i].where)
        names = ("lo", "hi", "step", "frozen", "increase", "decrease")
        lo, hi, step, frozen, increase, decrease = (getattr(own, name).copy() for name in names)
        low, high, grids = ([*of[kind], *of["flag"]] for kind in ("low", "high", "grid"))
        lo[low], hi[high], step[grids] = limits.lo[low], limits.hi[high], limits.step[grids]
        frozen[of["frozen"]], increase[of["rise"]], decrease[of["fall"]], step[of["group"]] = True, True, True, 1.0
        # Numbers at uneven distances: those of the pipeline, and mapped ones with a grid of the user's.
        mapped = {d: Uneven(d, self.columns[d], self.steps[d]) for d in grids if d in self.columns and self.columns[d].maps}
        jumps = {part.feature: part for part in own.uneven} | mapped
        uneven = tuple(part for d, part in sorted(jumps.items()) if not frozen[d])
        step[[part.feature for part in uneven]] = 0.0
        groups = (*(group for group in self.groups if int(group[0]) in of["group"]), *own.groups)
        rules = sorted(of["rule"])
        C, rest, equal = limits.C[rules], limits.rest[rules], limits.equal[rules]
        found = Limits(self.model, lo, hi, frozen, increase, decrease, step, groups, C, rest, equal, uneven)
        cost, most = Cost(scale=self.conditions.per_unit), self.conditions.max_changes if "changes" in of else None
        return replace(self.conditions, cost=cost, actions=ResolvedActions(limits=found), max_changes=most)


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
