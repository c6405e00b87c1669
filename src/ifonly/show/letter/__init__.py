"""A letter to the person concerned: what was decided, what would have changed it, and what that is not; as text or a page.

What it says stands in one small file a language (``messages/``), with the same keys in all of them. To add a language, add its
file. A test compares the keys, and the words in braces, with those of the English one.
"""

import datetime
import tomllib
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from ifonly.answers import Counterfactual
from ifonly.answers.change import Decision, parts_of
from ifonly.model.errors import InputError
from ifonly.model.words import PLAIN, Words
from ifonly.problem.status import Status
from ifonly.show.numbers import THIN, WIDE, Marks, percent, writing
from ifonly.show.page.document import breaking, filled, saved
from ifonly.show.sentence import Worded, worded
from ifonly.show.text import visible

__all__ = ["MESSAGES", "Catalogue", "html", "languages", "text", "write"]

MESSAGES = files("ifonly.show.letter") / "messages"
WIDTH = 72  # columns of a letter in plain text
SHORT = 3  # changes of plans that stand side by side; longer ones stand below each other
MOST_PLANS = 3  # more than anyone weighs, and than fit on a page
MOST_KEPT = 8  # names of what may not change
# What a letter has besides its answer; what is None or empty is left out, or taken from the policy, and the date is today's.
OPTIONS = {"language": str, "house": str, "reference": str, "date": datetime.date, "recipient": str, "contact": str}
Answers = Counterfactual | Iterable[Counterfactual]  # one, or several plans for one source, of which the first three are told


class Plan(NamedTuple):
    """What would have been enough."""

    heading: str  # empty where there is only one
    changes: list[tuple[str, str, str]]  # what, how, and both in one
    outcome: str


class Block(NamedTuple):
    """A heading, or none, and what stands below it: paragraphs, or a list."""

    heading: str
    lines: list[str]
    is_list: bool = False


class Letter(NamedTuple):
    """All that a letter says."""

    lines: dict[str, str]  # its title, its reference, who writes when to whom, …
    before: list[Block]
    plans: list[Plan]
    after: list[Block]


# ---- as text or a page ----


def text(answers: Answers, **options: Any) -> str:
    """The letter as plain text; the options are those of :meth:`ifonly.Counterfactual.letter`."""
    said, before, plans, after = _compose(answers, **options)
    head, end = [said["house"], said["date"], said["reference"]], [said["closing"], said["house"]]
    parts = [_lines(head), said["title"], said["greeting"], *map(_block, before)]
    for plan in plans:
        changes = [fill(line, WIDTH, initial_indent="  – ", subsequent_indent="    ") for _, _, line in plan.changes]
        parts.append(_lines([plan.heading, *changes, fill(plan.outcome, WIDTH)]))
    return "\n\n".join(filter(None, [*parts, *map(_block, after), said["contact"], _lines(end)]))


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(filter(None, parts))


def _block(block: Block) -> str:
    return _lines([block.heading, *(fill(line, WIDTH) for line in block.lines)])


def html(answers: Answers, **options: Any) -> str:
    """The letter as one page that needs nothing else, and prints on one sheet of A4."""
    said, before, plans, after = _compose(answers, **options)
    long = len(plans) == 1 or max((len(plan.changes) for plan in plans), default=0) > SHORT
    cards = f'<div class="plans{" long" if long else ""}">{"".join(map(_card, plans))}</div>' if plans else ""
    body = [*map(_html_block, before), cards, *map(_html_block, after), _element("p", said["contact"])]
    parts = {name: escape(line) for name, line in said.items()}
    parts |= {"reference": _element("p", said["reference"], ' class="reference"'), "body": _lines(body)}
    static = files("ifonly.show.letter") / "static"
    page, style = ((static / name).read_text(encoding="utf-8") for name in ("letter.html", "letter.css"))
    return filled(page, style, **parts)


def write(answers: Answers, path: Any, **options: Any) -> Path:
    """Write the letter as a page; returns where it is."""
    return saved(html(answers, **options), path)


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


# ---- in a language ----


def languages() -> list[str]:
    """The languages that there are, by their codes."""
    return sorted(file.name.removesuffix(".toml") for file in MESSAGES.iterdir() if file.name.endswith(".toml"))


class Catalogue:
    """The messages of a language, and how it writes numbers, percents, dates and lists; ``words`` may have their own marks."""

    def __init__(self, language: str, words: Words = PLAIN) -> None:
        if language not in languages():
            raise InputError(f"letters are in {', '.join(languages())}; got {language!r}")
        parts = tomllib.loads((MESSAGES / f"{language}.toml").read_text(encoding="utf-8"))
        self.language = language
        self.messages = {key: message for part in parts.values() for key, message in part.items()}
        self.marks = Marks.of(words, Marks(self.messages["decimal"], self.messages["group"]))

    def say(self, key: str, **parts: Any) -> str:
        """A message, with its parts filled in."""
        return self.messages[key].format(**parts)

    def quote(self, told: str) -> str:
        """A text in quotation marks."""
        return self.say("quote", text=told)

    def percent(self, p: float) -> str:
        """A probability, rounded down."""
        return self.say("percent", number=percent(p).removesuffix("%").rstrip())

    def date(self, day: datetime.date) -> str:
        """A day."""
        return self.say("date", day=day.day, month=self.messages["months"][day.month - 1], year=day.year)

    def listed(self, parts: list[str]) -> str:
        """``a``, ``a and b``, ``a, b and c``."""
        *first, last = parts
        return last if not first else self.say("and", first=self.say("comma").join(first), last=last)


# ---- from answers to what is said ----


def _compose(answers: Answers, **options: Any) -> Letter:
    sent = _checked(options)
    answers = _sound(answers)
    first, words = answers[0], answers[0].model.words
    said = Catalogue(sent["language"] or words.language or "en", words)
    reference, recipient, contact = (visible(sent[name] or "") for name in ("reference", "recipient", "contact"))
    with writing(said.marks):
        found = Decision.of(first)
        wanted = said.quote(visible(words.label(found.target)))
        decided = said.say("decided", decision=said.quote(visible(words.label(found.before))))
        if found.p_before is not None:
            decided += " " + said.say("reached", percent=said.percent(found.p_before), wanted=wanted)
        plans, changed = _plans(answers, found, said, wanted)
        questions = said.say("questions", reference=reference) if reference else said.say("questions_unknown")
        stopped = [Block("", [said.say("stopped")])] if plans and first.status is Status.STOPPED else []
        promise = Block(said.say("promise_heading"), [said.say("promise")])
        lines = {
            "language": said.language,
            "house": visible(words.house if sent["house"] is None else sent["house"]),
            "date": said.date(sent["date"] or datetime.date.today()),
            "reference": said.say("reference", reference=reference) if reference else "",
            "title": said.say("title"),
            "greeting": said.say("greeting", name=recipient) if recipient else said.say("greeting_unknown"),
            "contact": contact,
            "closing": said.say("closing"),
        }
        before = [Block(said.say("decided_heading"), [decided]), Block(said.say("changed_heading"), [changed])]
        return Letter(lines, before, plans, [*stopped, *_kept(first, said), promise, Block("", [questions])])


def _sound(answers: Answers) -> list[Counterfactual]:
    """The answers, of which the first is one to write about."""
    found = [answers] if isinstance(answers, Counterfactual) else list(answers)
    if not (found and np.isfinite(found[0].coordinates[1]).all()):
        raise InputError(f"there is no answer to write a letter about{f': {found[0].message}' if found else ''}")
    return found


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if name not in OPTIONS:
            raise InputError(f"a letter has no {name!r}; it has {', '.join(OPTIONS)}")
        if value is not None and not isinstance(value, OPTIONS[name]):
            raise InputError(f"{name} must be {'text' if OPTIONS[name] is str else 'a datetime.date'}; got {value!r}")
    return dict.fromkeys(OPTIONS) | options


def _plans(answers: list[Counterfactual], found: Decision, said: Catalogue, wanted: str) -> tuple[list[Plan], str]:
    """The plans, and what is said before them."""
    if answers[0].status is Status.UNREACHABLE:
        return [], said.say("unreachable", wanted=wanted)
    if found.before == found.target:
        return [], said.say("nothing", wanted=wanted)
    decisions = [(cf, Decision.of(cf)) for cf in answers]
    enough = [(cf, then.p_after) for cf, then in decisions if then.after == found.target][:MOST_PLANS]
    if not enough:
        raise InputError(
            "a letter says what would have changed the decision, and this answer does not; ask with prob=0.5 or more"
        )
    several = len(enough) > 1
    plans = []
    for i, (cf, p) in enumerate(enough, 1):
        outcome = "" if p is None else said.say("outcome", percent=said.percent(p))
        heading = said.say("plan", number=i) if several else ""
        plans.append(Plan(heading, [_told(cf, words, said) for words in worded(cf)], outcome))
    return plans, said.say("any_plan" if several else "one_plan", wanted=wanted)


def _told(cf: Counterfactual, words: Worded, said: Catalogue) -> tuple[str, str, str]:
    """A change: what, how, and both in one line."""
    name = visible(words.name)
    if cf.model.encoding.text:
        often = said.say(words.after.replace(" ", "_"))
        return said.quote(name), often, said.say("word", word=said.quote(name), often=often)
    unit = f"{WIDE}{words.unit}" if words.unit and words.change.part.kind == "number" else ""
    before, after = (visible(f"{value}{unit}") for value in (words.before, words.after))
    before = said.say("missing") if words.change.before is None else before
    if words.bound:
        after = said.say(words.bound.replace(" ", "_"), value=after)
    line = said.say("change", feature=name, after=after, before=before)
    return name, line.removeprefix(name).lstrip(f" {THIN}{WIDE}:"), line


def _kept(cf: Counterfactual, said: Catalogue) -> list[Block]:
    """What may not change, by reason; names without one last."""
    if cf.conditions is None:
        return []
    by_reason: dict[str, list[str]] = {}
    for part in parts_of(cf.model, cf.conditions, cf.sources.columns):
        if cf.conditions.limits.frozen[part.features].all():
            by_reason.setdefault(part.reason, []).append(visible(part.name))
    lines = []
    for reason, names in sorted(by_reason.items(), key=lambda pair: not pair[0]):
        features = said.listed(names if len(names) <= MOST_KEPT else [*names[:MOST_KEPT], said.say("others")])
        features = features[:1].upper() + features[1:]
        lines.append(said.say("kept_reason" if reason else "kept", features=features, reason=visible(reason)))
    return [Block(said.say("kept_heading"), lines, is_list=True)] if lines else []
