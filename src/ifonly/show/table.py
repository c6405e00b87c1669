"""Tables of answers, for terminals, notebooks and `rich`: of one, of several plans for one source, and of a population.

Names, values and labels are the user's, or of whoever wrote their file. Whatever is printed goes through `visible`, so that
nothing in them moves a cursor, hides a line or begins a new one.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np

from ifonly.answers import Counterfactual, Counterfactuals
from ifonly.answers.change import Decision, Part, measured, moves, own_rows, parts_of, prices, told_of, values_of
from ifonly.answers.views import frame_of
from ifonly.model.numerics import Floats
from ifonly.problem.status import Status
from ifonly.show.numbers import bound, count, housed, number, pair, percent, quoted, rounded, share, signed, value
from ifonly.show.sentence import Worded, sentence, worded
from ifonly.show.text import UNSEEN, cut, shortened, visible

__all__ = ["UNSEEN", "Summary", "Table", "certificate_words", "cut", "decisions", "figures", "headline", "html_of"]
__all__ += ["html_of_many", "of_changes", "of_many", "of_plans", "others", "printed", "repr_of_plans", "visible"]

WIDTH = 80  # columns of a terminal
ROWS = 12  # that are printed; the others are counted
LEAST_NAME = 8  # columns that a name keeps, whatever the numbers take
SAME = "·"  # of a feature that a plan leaves alone
SIGNS = {"at least": "≥ ", "at most": "≤ ", "": ""}
SWITCHES = 3  # of a category, that are printed
COLUMNS = ("feature", "moves", "lower quartile", "median", "upper quartile", "share")  # of a summary


@dataclass(frozen=True)
class Table:
    """A small table: its data, and how it is printed.

    ``str(table)`` is for terminals (at most 80 columns), notebooks show HTML, and `rich` prints it in colour.
    """

    columns: tuple[str, ...]  # headings; the first column is text, the others numbers
    rows: tuple[tuple[Any, ...], ...]  # the data
    texts: tuple[tuple[str, ...], ...]  # the data that are printed, as they are printed; see `visible`
    shown: int = ROWS  # how many rows are printed; the others are counted
    notes: tuple[str, ...] = ()  # lines under the table
    rest: tuple[str, ...] = field(init=False, repr=False)  # what stands below the rows where there are more

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(tuple(map(visible, row)) for row in self.texts))
        object.__setattr__(self, "notes", tuple(map(visible, self.notes)))
        object.__setattr__(self, "rest", (f"… and {number(self.more)} more",) if self.more else ())

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __getitem__(self, i: int) -> tuple[Any, ...]:
        return self.rows[i]

    @property
    def more(self) -> int:
        """How many rows are not printed."""
        return max(len(self.rows) - self.shown, 0)

    def to_frame(self) -> Any:
        """All rows as a pandas frame."""
        return frame_of(list(self.rows), self.columns)

    def __str__(self) -> str:
        shown = [self.columns, *self.texts[: self.shown]]
        widths = _fitted([max(len(row[i]) for row in shown) for i in range(len(self.columns))])
        names = shortened([row[0] for row in shown], widths[0])
        numbers = [[cut(text, width).rjust(width) for text, width in zip(row, widths, strict=True)][1:] for row in shown]
        lines = ["  ".join([name.ljust(widths[0]), *row]) for name, row in zip(names, numbers, strict=True)]
        lines.insert(1, "─" * len(lines[0]))
        wrapped = [part for note in self.notes for part in wrap(note, WIDTH, subsequent_indent="  ")]
        return "\n".join([*(line.rstrip() for line in lines), *self.rest, *wrapped])

    def to_html(self) -> str:
        """The rows that are printed, as an HTML table."""
        left, right = 'style="text-align:left"', 'style="text-align:right"'

        def cells(row: Sequence[str], tag: str) -> str:
            return "".join(f"<{tag} {left if i == 0 else right}>{escape(text)}</{tag}>" for i, text in enumerate(row))

        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in self.texts[: self.shown])
        body += "".join(f'<tr><td colspan="{len(self.columns)}" {left}>{text}</td></tr>' for text in self.rest)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<table><thead><tr>{cells(self.columns, 'th')}</tr></thead><tbody>{body}</tbody></table>{notes}"

    __repr__, _repr_html_ = __str__, to_html

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table as Rich
        from rich.text import Text

        found = Rich(box=None, pad_edge=False, header_style="bold")
        for i, name in enumerate(self.columns):
            # A name is folded, not cut: forty columns may begin alike.
            found.add_column(name, justify="right" if i else "left", overflow="ellipsis" if i else "fold", no_wrap=i > 0)
        for row in self.texts[: self.shown]:
            found.add_row(*(Text(text) for text in row))  # Text: names may have [brackets], which rich takes for markup
        return Group(found, *(Text(line, style="dim") for line in [*self.rest, *self.notes]))


def _fitted(widths: list[int]) -> list[int]:
    """Widths that fit into a terminal: the first column gives way, then the widest of the others."""
    room = WIDTH - 2 * (len(widths) - 1)
    widths[0] = max(min(widths[0], room - sum(widths[1:])), LEAST_NAME)
    while sum(widths) > room:
        i = max(range(1, len(widths)), key=widths.__getitem__)
        widths[i] -= 1
    return widths


# ---- one answer ----


@housed
def of_changes(cf: Counterfactual, rows: int | None = None) -> Table:
    """What changed in one answer: from, to, difference in the user's units and in units of cost, share of the cost."""
    found, shown = moves(cf), ROWS if rows is None else rows
    data = tuple((c.feature, c.before, c.after, c.difference, c.units, c.share) for c in found)
    texts = []
    for words in worded(cf, found[:shown]):
        change, units = words.change, number(words.change.units, 3)
        units = units if change.part.kind == "category" else signed(units)
        texts.append((change.part.label, *printed(words), units, share(change.share)))
    notes = () if found else ("nothing has to change" if cf.status.ok else quoted(cf.message),)
    return Table(("feature", "from", "to", "change", "cost units", "share"), data, tuple(texts), shown, notes)


def printed(words: Worded) -> tuple[str, str, str]:
    """Before, after and difference; a number that the sentence gives as "at least" or "at most" is rounded so that it is."""
    change = words.change
    before, after = (words.before, words.after) if words.before else pair(change.before, change.after)  # weights in a text
    difference = change.difference
    if math.isnan(difference):
        return before, after, ""
    return before, after, signed(number(rounded(difference, up=difference > 0) if words.bound else difference))


@housed
def html_of(cf: Counterfactual) -> str:
    """Decision before and after (or that it cannot be reached), what changed, and what is known for certain."""
    head = f"<p><b>{escape(sentence(cf) if cf.status is Status.UNREACHABLE else decisions(cf))}</b></p>"
    proof = f"<p>{escape(certificate_words(cf))}</p>"
    if not cf.changes() and not cf.status.ok:
        return f"<div><p><b>{escape(visible(quoted(cf.message)))}</b></p></div>"
    return f"<div>{head}{of_changes(cf).to_html() if cf.changes() else ''}{proof}</div>"


@housed
def decisions(cf: Counterfactual) -> str:
    """The decision before and after: ``refused → approved, p(approved) 12 % → 80 %``."""
    called = cf.model.words.label
    target = visible(called(cf.target))
    if cf.status is Status.INVALID:
        return f"towards {target}: no answer"
    found = Decision.of(cf)
    before, after = visible(called(found.before)), visible(called(found.after))
    moved = f"{before} → {after}" if found.before != found.after else f"{before}, as before"
    if found.p_before is None or found.p_after is None:
        return moved
    return f"{moved}, p({target}) {percent(found.p_before)} → {percent(found.p_after)}"


@housed
def certificate_words(
    cf: Counterfactual, again: str = "cf.verify() recomputes this from the model and the source alone."
) -> str:
    """The certificate in plain words; ``again`` says how to recheck a proof."""
    if cf.status is Status.INVALID or cf.cost == float("inf"):
        return visible(quoted(cf.message))
    if cf.status is Status.UNREACHABLE or cf.exhausted:
        return f"{visible(quoted(cf.message))}."
    if not cf.distance:
        return "Nothing has to change: the source is as wanted, and nothing is nearer to it than itself."
    goal = cf.prob is not None or (cf.conditions is not None and cf.conditions.margin is not None)
    least, total = ("cost", cf.cost) if goal else ("objective", cf.objective)
    is_, below = number(total), number(cf.bound)
    of_all = " to these features alone" if cf.alone else ""  # another plan may cost less
    if cf.conditions is None or not cf.conditions.discrete:
        room = f"{is_}, by more than {bound(total - cf.bound)}"
        return f"Proved: no allowed change{of_all} has a lower {least} than this one's, {room}. {again}".rstrip()
    if cf.status is Status.STOPPED:
        return f"The search was stopped: the {least} is {is_}, the least is not below {below}."
    searched = f"{count(cf.n_nodes, 'node')} {'was' if cf.n_nodes == 1 else 'were'} searched"
    if cf.status is not Status.EXACT:
        return f"The {least} is {is_}, and no allowed change{of_all} has one below {below}; {searched}."
    return f"Of all allowed changes{of_all} none has a lower {least} than {is_}; {searched}."


# ---- several plans for one source ----


def figures(cf: Counterfactual, changes: list[Worded]) -> str:
    """``60 %, cost 2.117, 4 changes``."""
    p = Decision.of(cf).p_after
    reached = "" if p is None else f"{percent(p)}, "
    return f"{reached}cost {number(cf.cost)}, {count(len(changes), 'change')}"


@housed
def of_plans(cfs: Counterfactuals, rows: int | None = None) -> Table:
    """A row for each feature that a plan changes, a column for each plan; below it what each reaches and costs."""
    plans = list(map(worded, cfs))
    told = [{int(words.change.part.features[0]): words for words in changes} for changes in plans]
    features: dict[int, Worded] = {}
    for plan in told:
        features = features | plan | features  # each feature as the first plan that changes it has it
    data, texts = [], []
    for key, words in features.items():
        first, here = words.change, [plan.get(key) for plan in told]
        now = words.before or value(first.before)
        data.append((first.feature, first.before, *(first.before if found is None else found.change.after for found in here)))
        texts.append((words.label, now, *(SAME if found is None else SIGNS[found.bound] + found.after for found in here)))
    heads = ["at best"] if cfs[0].status is Status.UNREACHABLE else [f"plan {i}" for i in range(1, len(plans) + 1)]
    notes = [f"{head}: {figures(cf, changes)}" for head, cf, changes in zip(heads, cfs, plans, strict=True) if changes]
    shown = ROWS if rows is None else rows
    return Table(("feature", "now", *heads), tuple(data), tuple(texts), shown, (*notes, *others(cfs)))


@housed
def headline(cfs: Counterfactuals) -> str:
    """What the plans are for, in a sentence."""
    first, n = cfs[0], len(cfs)
    if first.status is Status.UNREACHABLE or not moves(first):
        return sentence(first)
    target = visible(first.model.words.label(first.target))
    if any(found.after != found.target for found in map(Decision.of, cfs)):
        return f"{count(n, 'plan')} towards {target}."
    which = f"Any one of these {count(n, 'plan')}" if n > 1 else "This plan"
    return f"{which} makes the decision {target}."


def others(cfs: Counterfactuals) -> list[str]:
    """What is known of plans besides these."""
    first = cfs[0]
    if first.status is Status.UNREACHABLE or not moves(first):
        return []
    if cfs.complete:
        return ["There are no other plans: no other set of features will do."]
    return ["There may be others; none of them costs less than these." if cfs.cheapest else "There may be others."]


def repr_of_plans(cfs: Counterfactuals) -> str:
    """For terminals."""
    table = of_plans(cfs)
    return f"{headline(cfs)}\n{table}" if table else headline(cfs)


# ---- a population ----


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
def of_many(cfs: Counterfactuals) -> Summary:
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
            quartiles = np.percentile(_differences(part, delta, own)[moved], [25, 50, 75]).tolist()
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
    notes = [f"{count(len(cfs), 'row')}: {ends}"]
    for name, found in switches.items():
        first = ", ".join(f"{a} → {b} {number(n)}×" for (a, b), n in list(found.items())[:SWITCHES])
        notes.append(f"{name}: {first}" + (f", … and {len(found) - SWITCHES} more" if len(found) > SWITCHES else ""))
    return Summary(COLUMNS, tuple(rows), texts, notes=tuple(notes), n_rows=len(cfs), statuses=statuses, switches=switches)


def _differences(part: Part, delta: Floats, own: tuple[Any, Any]) -> Floats:
    """Of a number, in the user's units."""
    if part.column is None:
        return delta[:, part.features[0]]
    before, after = (table.numbers(part.column.place, part.column.name) for table in own)
    return after - part.column.filled(before)


def html_of_many(cfs: Counterfactuals) -> str:
    """For notebooks: the plans, or the summary, or how they ended where the sources are gone."""
    if cfs.are_plans:
        table = of_plans(cfs)
        return f"<div><p><b>{escape(headline(cfs))}</b></p>{table.to_html() if table else ''}</div>"
    return f"<p>{escape(repr(cfs))}</p>" if cfs.sources.rows is None else of_many(cfs).to_html()
