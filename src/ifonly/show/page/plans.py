"""Several plans for one source as one HTML file: a card for each, side by side."""

from html import escape

from ifonly.answers import Counterfactuals
from ifonly.problem.status import Status
from ifonly.show.decision import Decision
from ifonly.show.numbers import percent
from ifonly.show.page.document import document
from ifonly.show.plans import Plan, headline, others, plans_of
from ifonly.show.sentence import Worded

__all__ = ["plans_html"]


def plans_html(cfs: Counterfactuals, title: str) -> str:
    """The page, as text."""
    now = Decision.of(cfs[0])
    chance = "" if now.p_before is None else f"{percent(now.p_before, 'tenths')} for {now.target}"
    cards = [_card(i, plan) for i, plan in enumerate(plans_of(cfs), 1) if plan.changes]
    return document(
        "plans",
        title=escape(title),
        headline=escape(headline(cfs)),
        decided=escape(str(now.before)),
        chance=escape(chance),
        cards="\n".join(cards),
        others=escape(" ".join(others(cfs))),
    )


def _card(i: int, plan: Plan) -> str:
    moved = "".join(f"<li>{_moved(words)}</li>" for words in plan.changes)
    name = "The best there is" if plan.cf.status is Status.UNREACHABLE else f"Plan {i}"
    if i == 1 and plan.cf.status is not Status.UNREACHABLE:
        name += ' <span class="note">the smallest</span>'
    return (
        f'<section class="plan" aria-labelledby="plan-{i}"><h2 id="plan-{i}">{name}</h2>'
        f'<p class="figures">{escape(plan.figures)}</p><ul>{moved}</ul></section>'
    )


def _moved(words: Worded) -> str:
    """``duration: 36 → at most 24``."""
    before = f"{escape(words.before)} → " if words.before else ""
    bound = f"{words.bound} " if words.bound else ""
    name = escape(words.label).replace("_", "_<wbr>")  # a line may end there, rather than anywhere
    return f'<span class="name">{name}</span> <span class="move">{before}{bound}<b>{escape(words.after)}</b></span>'
