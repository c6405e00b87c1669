"""A letter to the person concerned: what was decided, what would have changed it, and what that is not; as text or a page."""

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any

from ifonly.answers import Counterfactual
from ifonly.show.letter.composing import Block, Plan, compose
from ifonly.show.page.document import breaking, filled, saved

__all__ = ["html", "text", "write"]

WIDTH = 72  # columns of a letter in plain text
Answers = Counterfactual | Iterable[Counterfactual]  # one, or several plans for one source
SHORT = 3  # changes of plans that stand side by side; longer ones stand below each other


def text(answers: Answers, **options: Any) -> str:
    """The letter as plain text; the options are those of :meth:`ifonly.Counterfactual.letter`."""
    letter = compose(answers, **options)
    head, end = (letter.house, letter.date, letter.reference), (letter.closing, letter.house)
    parts = [_lines(head), letter.title, letter.greeting, *map(_block, letter.before), *map(_plan, letter.plans)]
    parts += [*map(_block, letter.after), letter.contact, _lines(end)]
    return "\n\n".join(filter(None, parts))


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(filter(None, parts))


def _block(block: Block) -> str:
    return _lines([block.heading, *(fill(line, WIDTH) for line in block.lines)])


def _plan(plan: Plan) -> str:
    lines = [fill(line, WIDTH, initial_indent="  – ", subsequent_indent="    ") for _, _, line in plan.changes]
    return _lines([plan.heading, *lines, fill(plan.outcome, WIDTH)])


def html(answers: Answers, **options: Any) -> str:
    """The letter as one page that needs nothing else, and prints on one sheet of A4."""
    letter = compose(answers, **options)
    plain = {name: escape(getattr(letter, name)) for name in ("language", "house", "date", "title", "greeting", "closing")}
    long = len(letter.plans) == 1 or max((len(plan.changes) for plan in letter.plans), default=0) > SHORT
    cards = "".join(_card(plan) for plan in letter.plans)
    plans = f'<div class="plans{" long" if long else ""}">{cards}</div>' if cards else ""
    body = [*map(_html_block, letter.before), plans, *map(_html_block, letter.after), _element("p", letter.contact)]
    reference = _element("p", letter.reference, ' class="reference"')
    static = files("ifonly.show.letter") / "static"
    page, style = ((static / name).read_text(encoding="utf-8") for name in ("letter.html", "letter.css"))
    return filled(page, style, **plain, reference=reference, body=_lines(body))


def _element(tag: str, told: str, look: str = "") -> str:
    """An element with a text in it; nothing for none."""
    return f"<{tag}{look}>{escape(told)}</{tag}>" if told else ""


def _html_block(block: Block) -> str:
    lines = "".join(_element("li" if block.is_list else "p", line) for line in block.lines)
    return _element("h2", block.heading) + (f"<ul>{lines}</ul>" if block.is_list else lines)


def _card(plan: Plan) -> str:
    rows = "".join(f"<dt>{breaking(name)}</dt><dd>{escape(how)}</dd>" for name, how, _ in plan.changes)
    outcome = _element("p", plan.outcome, ' class="outcome"')
    return f"<section>{_element('h3', plan.heading)}<dl>{rows}</dl>{outcome}</section>"


def write(answers: Answers, path: Any, **options: Any) -> Path:
    """Write the letter as a page; returns where it is."""
    return saved(html(answers, **options), path)
