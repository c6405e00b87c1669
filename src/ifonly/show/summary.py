"""What a population's answers have in common: which features move, how often, how far, and what that is of the cost."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from ifonly.answers import Counterfactuals
from ifonly.answers.change import Part, measured, own_rows, parts_of, prices, told_of, values_of
from ifonly.model.numerics import Floats, Indices
from ifonly.problem.status import Status
from ifonly.show.numbers import count, housed, number, share, signed
from ifonly.show.table import Table

__all__ = ["Summary", "html_of", "of_answers"]

SWITCHES = 3  # of a category, that are printed
COLUMNS = ("feature", "moves", "lower quartile", "median", "upper quartile", "share")


@dataclass(frozen=True, repr=False)
class Summary(Table):
    """A table with a row for each feature that moves, and what does not fit into it.

    Columns: the feature; the share of rows in which it moves; quartiles and median of its change in the user's units, where it
    moves (NaN for categories); its share of the cost of all changes.
    """

    n_rows: int = 0  # how many answers there are
    statuses: Mapping[Status, int] = field(default_factory=dict)  # how they ended
    # For each category, how often which value became which: {"job": {("none", "skilled"): 12}}.
    switches: Mapping[str, Mapping[tuple[Any, Any], int]] = field(default_factory=dict)


@housed
def of_answers(cfs: Counterfactuals) -> Summary:
    """The summary of many answers."""
    statuses = {Status(int(code)): int(n) for code, n in zip(*np.unique(cfs.status, return_counts=True), strict=True)}
    source, x = cfs.coordinates
    solved = np.asarray(np.isfinite(x - source).all(axis=1))
    delta = np.where(solved[:, None], x - source, 0.0)
    each = prices(measured(cfs.model, cfs.conditions), delta)
    costs, told = each.sum(axis=0), told_of(cfs.model, delta, each)
    total = float(costs.sum())
    own = own_rows(cfs)
    rows, labels, switches = [], {}, {}
    for part in parts_of(cfs.model, cfs.conditions, cfs.sources.columns):
        moved = np.flatnonzero(told[:, part.features].any(axis=1))
        if not len(moved):
            continue
        quartiles = [float("nan")] * 3
        if part.kind == "number":
            quartiles = np.percentile(_differences(part, delta, moved, own), [25, 50, 75]).tolist()
        else:
            sides = (values_of(part, v, table, cfs.model.words, moved) for v, table in zip((source, x), own, strict=True))
            switches[part.name] = dict(Counter(zip(*sides, strict=True)).most_common())
        of_cost = float(costs[part.features].sum()) / total if total > 0 else 0.0
        labels[part.name] = part.label
        rows.append((part.name, len(moved) / max(int(solved.sum()), 1), *quartiles, of_cost))
    rows.sort(key=lambda row: -abs(row[-1]))
    texts = tuple(
        (labels[name], share(often), *("" if np.isnan(v) else signed(number(v)) for v in middle), share(part))
        for name, often, *middle, part in rows
    )
    ends = ", ".join(f"{number(n)} {status.name}" for status, n in statuses.items())
    notes = (f"{count(len(cfs), 'row')}: {ends}", *(_switched(name, found) for name, found in switches.items()))
    return Summary(COLUMNS, tuple(rows), texts, notes=notes, n_rows=len(cfs), statuses=statuses, switches=switches)


def html_of(cfs: Counterfactuals) -> str:
    """For notebooks: the summary, or how they ended where nothing moved or the sources are gone."""
    if cfs.sources.rows is None:
        return f"<p>{escape(repr(cfs))}</p>"
    return of_answers(cfs).to_html()


def _differences(part: Part, delta: Floats, moved: Indices, own: tuple[Any, Any]) -> Floats:
    column = part.column
    if column is None:
        return delta[moved, part.features[0]]
    before, after = (table.numbers(column.place, column.name)[moved] for table in own)
    return after - column.filled(before)


def _switched(name: str, found: Mapping[tuple[Any, Any], int]) -> str:
    first = ", ".join(f"{a} → {b} {number(n)}×" for (a, b), n in list(found.items())[:SWITCHES])
    return f"{name}: {first}" + (f", … and {len(found) - SWITCHES} more" if len(found) > SWITCHES else "")
