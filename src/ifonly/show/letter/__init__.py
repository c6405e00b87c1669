"""A letter to the person concerned: what was decided, what would have changed it, and what that is not; as text or a page."""

import datetime
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any

from ifonly.answers import Counterfactual
from ifonly.model.errors import InputError
from ifonly.show.letter.composing import Letter, Plan, Sender, compose
from ifonly.show.page.document import digest

__all__ = ["html", "text", "write"]

WIDTH = 72  # columns of a letter in plain text
SHORT = 3  # changes of plans that stand side by side; longer ones stand below each other


def text(answers: Sequence[Counterfactual], **options: Any) -> str:
    """The letter as plain text; the options are those of :meth:`ifonly.Counterfactual.letter`."""
    letter = compose(answers, _sender(**options))
    head = [part for part in (letter.house, letter.date, letter.reference) if part]
    parts = ["\n".join(head), letter.title, letter.greeting, _section(letter.decided), _section(letter.changed)]
    parts += [_plan(plan) for plan in letter.plans]
    parts += [fill(letter.stopped, WIDTH)] if letter.stopped else []
    heading, kept = letter.kept
    parts += ["\n".join([heading, *(fill(line, WIDTH) for line in kept)])] if kept else []
    parts += [_section(letter.promise), fill(letter.questions, WIDTH)]
    parts += [letter.contact] if letter.contact else []
    parts.append("\n".join(part for part in (letter.closing, letter.house) if part))
    return "\n\n".join(parts)


def _section(told: tuple[str, str]) -> str:
    return f"{told[0]}\n{fill(told[1], WIDTH)}"


def _plan(plan: Plan) -> str:
    lines = [fill(line, WIDTH, initial_indent="  – ", subsequent_indent="    ") for _, _, line in plan.changes]
    return "\n".join(
        [*([plan.heading] if plan.heading else []), *lines, *([fill(plan.outcome, WIDTH)] if plan.outcome else [])]
    )


def html(answers: Sequence[Counterfactual], **options: Any) -> str:
    """The letter as one page that needs nothing else, and prints on one sheet of A4."""
    letter = compose(answers, _sender(**options))
    style = _static("letter.css")
    policy = f"default-src 'none'; style-src '{digest(style)}'; base-uri 'none'; form-action 'none'"
    parts = {"policy": policy, "style": style, **_parts(letter)}
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], _static("letter.html"))


def _parts(letter: Letter) -> dict[str, str]:
    """The pieces of the page, as HTML."""
    plain = {name: escape(getattr(letter, name)) for name in ("language", "house", "date", "title", "greeting", "closing")}
    blocks = [_block(letter.decided), _block(letter.changed)]
    if letter.plans:
        long = len(letter.plans) == 1 or max(len(plan.changes) for plan in letter.plans) > SHORT
        cards = "".join(_card(plan) for plan in letter.plans)
        blocks.append(f'<div class="plans{" long" if long else ""}">{cards}</div>')
    blocks += [_paragraph(letter.stopped)] if letter.stopped else []
    heading, kept = letter.kept
    if kept:
        blocks.append(f"<h2>{escape(heading)}</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in kept)}</ul>")
    blocks += [_block(letter.promise), _paragraph(letter.questions)]
    blocks += [_paragraph(letter.contact)] if letter.contact else []
    reference = f'<p class="reference">{escape(letter.reference)}</p>' if letter.reference else ""
    return {**plain, "reference": reference, "body": "\n".join(blocks)}


def _paragraph(told: str) -> str:
    return f"<p>{escape(told)}</p>"


def _block(told: tuple[str, str]) -> str:
    return f"<h2>{escape(told[0])}</h2>{_paragraph(told[1])}"


def _card(plan: Plan) -> str:
    heading = f"<h3>{escape(plan.heading)}</h3>" if plan.heading else ""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(how)}</dd>" for name, how, _ in plan.changes)
    outcome = f'<p class="outcome">{escape(plan.outcome)}</p>' if plan.outcome else ""
    return f"<section>{heading}<dl>{rows}</dl>{outcome}</section>"


def write(answers: Sequence[Counterfactual], path: Any, **options: Any) -> Path:
    """Write the letter as a page; returns where it is."""
    file = Path(path)
    file.write_text(html(answers, **options), encoding="utf-8", newline="\n")
    return file


def _static(name: str) -> str:
    return (files("ifonly.show.letter") / "static" / name).read_text(encoding="utf-8")


def _sender(**options: Any) -> Sender:
    known = Sender.__dataclass_fields__
    for name, value in options.items():
        if name not in known:
            raise InputError(f"a letter has no {name!r}; it has {', '.join(known)}")
        kind = datetime.date if name == "date" else str
        if value is not None and not isinstance(value, kind):
            raise InputError(f"{name} must be {'a datetime.date' if kind is datetime.date else 'text'}; got {value!r}")
    return Sender(**options)
