"""Several plans for one source, side by side: what each changes, what it costs, and whether there are others."""

from html import escape

from ifonly.answers import Counterfactual, Counterfactuals
from ifonly.answers.change import Decision, moves
from ifonly.problem.status import Status
from ifonly.show.numbers import count, housed, number, percent, value
from ifonly.show.sentence import Worded, sentence, worded
from ifonly.show.table import Table
from ifonly.show.text import visible

__all__ = ["figures", "headline", "html_of", "others", "repr_of", "table_of"]

SAME = "·"  # of a feature that a plan leaves alone
SIGNS = {"at least": "≥ ", "at most": "≤ ", "": ""}


def figures(cf: Counterfactual, changes: list[Worded]) -> str:
    """``60 %, cost 2.117, 4 changes``."""
    p = Decision.of(cf).p_after
    reached = "" if p is None else f"{percent(p)}, "
    return f"{reached}cost {number(cf.cost)}, {count(len(changes), 'change')}"


@housed
def table_of(cfs: Counterfactuals, rows: int | None = None) -> Table:
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
    return Table(
        ("feature", "now", *heads), tuple(data), tuple(texts), *([] if rows is None else [rows]), notes=(*notes, *others(cfs))
    )


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


def html_of(cfs: Counterfactuals) -> str:
    """For notebooks."""
    table = table_of(cfs)
    return f"<div><p><b>{escape(headline(cfs))}</b></p>{table.to_html() if table else ''}</div>"


def repr_of(cfs: Counterfactuals) -> str:
    """For terminals."""
    table = table_of(cfs)
    return f"{headline(cfs)}\n{table}" if table else headline(cfs)
