"""From answers to what a letter says: paragraphs in a language, before they are text or a page."""

import datetime
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ifonly.answers import Counterfactual
from ifonly.answers.change import Decision, parts_of
from ifonly.model.errors import InputError
from ifonly.problem.status import Status
from ifonly.show.letter.catalogue import Catalogue
from ifonly.show.numbers import THIN, WIDE, writing
from ifonly.show.sentence import Worded, worded
from ifonly.show.text import visible

__all__ = ["Block", "Letter", "Plan", "compose"]

MOST_PLANS = 3  # more than anyone weighs, and than fit on a page
MOST_KEPT = 8  # names of what may not change
# What a letter has besides its answer; what is None or empty is left out, or taken from the policy, and the date is today's.
OPTIONS = {"language": str, "house": str, "reference": str, "date": datetime.date, "recipient": str, "contact": str}


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
    """All that a letter says, in its order."""

    language: str
    house: str
    date: str
    reference: str
    title: str
    greeting: str
    before: list[Block]
    plans: list[Plan]
    after: list[Block]
    contact: str
    closing: str


def compose(answers: Counterfactual | Iterable[Counterfactual], **options: Any) -> Letter:
    """A letter about an answer, or about several plans for one source, of which the first three are told."""
    sent = _checked(options)
    answers = [answers] if isinstance(answers, Counterfactual) else list(answers)
    first, words = answers[0], answers[0].model.words
    if first.status is Status.INVALID or not np.isfinite(first.coordinates[1]).all():
        raise InputError(f"there is no answer to write a letter about: {first.message}")
    said = Catalogue(sent["language"] or words.language or "en", words)
    reference, recipient, contact = (visible(sent[name] or "") for name in ("reference", "recipient", "contact"))
    with writing(said.marks):
        found = Decision.of(first)
        wanted = said.quote(visible(words.label(found.target)))
        decided = said.say("decided", decision=said.quote(visible(words.label(found.before))))
        if found.p_before is not None:
            decided += " " + said.say("reached", percent=said.percent(found.p_before), wanted=wanted)
        plans, text = _plans(answers, found, said, wanted)
        questions = said.say("questions", reference=reference) if reference else said.say("questions_unknown")
        stopped = [Block("", [said.say("stopped")])] if plans and first.status is Status.STOPPED else []
        promise, questions = Block(said.say("promise_heading"), [said.say("promise")]), Block("", [questions])
        return Letter(
            language=said.language,
            house=visible(words.house if sent["house"] is None else sent["house"]),
            date=said.date(sent["date"] or datetime.date.today()),
            reference=said.say("reference", reference=reference) if reference else "",
            title=said.say("title"),
            greeting=said.say("greeting", name=recipient) if recipient else said.say("greeting_unknown"),
            before=[Block(said.say("decided_heading"), [decided]), Block(said.say("changed_heading"), [text])],
            plans=plans,
            after=[*stopped, *_kept(first, said), promise, questions],
            contact=contact,
            closing=said.say("closing"),
        )


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if name not in OPTIONS:
            raise InputError(f"a letter has no {name!r}; it has {', '.join(OPTIONS)}")
        if value is not None and not isinstance(value, OPTIONS[name]):
            raise InputError(f"{name} must be {'text' if OPTIONS[name] is str else 'a datetime.date'}; got {value!r}")
    return dict.fromkeys(OPTIONS) | options


# ---- what would have changed it ----


def _plans(answers: list[Counterfactual], found: Decision, said: Catalogue, wanted: str) -> tuple[list[Plan], str]:
    """The plans, and what is said before them."""
    if answers[0].status is Status.UNREACHABLE:
        return [], said.say("unreachable", wanted=wanted)
    if found.before == found.target:
        return [], said.say("nothing", wanted=wanted)
    enough = [cf for cf in answers if Decision.of(cf).after == found.target][:MOST_PLANS]
    if not enough:
        raise InputError(
            "a letter says what would have changed the decision, and this answer does not; ask with prob=0.5 or more"
        )
    several = len(enough) > 1
    plans = []
    for i, cf in enumerate(enough, 1):
        p = Decision.of(cf).p_after
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
    before, after = (visible(f"{text}{unit}") for text in (words.before, words.after))
    before = said.say("missing") if words.change.before is None else before
    if words.bound:
        after = said.say(words.bound.replace(" ", "_"), value=after)
    line = said.say("change", feature=name, after=after, before=before)
    return name, line.removeprefix(name).lstrip(f" {THIN}{WIDE}:"), line


# ---- what stays ----


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
