"""An answer in one sentence, true as it stands, and one that can be acted on: no change that is needed is left out of it.

"At least" and "at most" are said of a feature only where every larger (or smaller) value keeps the decision too, whatever the
others are. The margins of the rivals over the target, s_j = (a_j − a_k)ᵀx + …, are linear, so p_k never falls along a feature
if and only if no s_j rises along it: the signs of one column of ``A`` decide. Not where the feature stops at a limit, or a rule
ties it to others. Numbers are then rounded in the direction of the change, so that the printed one keeps the decision, and all
printed numbers together are put to the model, and get more digits until it agrees.

Pages show the same sentence: they get its pieces as data, and where a page solves for itself ``page/static/sentence.js`` makes
them in the same way; a test compares the two. Names, values and labels are the user's, or of whoever wrote their file: in
Markdown they read as they are, whatever they hold.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ifonly.answers import Counterfactual
from ifonly.answers.change import Change, Decision, moves
from ifonly.model import Model
from ifonly.model.numerics import softmax
from ifonly.problem.status import Status
from ifonly.show.numbers import DIGITS, EXACT_DIGITS, asked, count, housed, number, pair, percent, quoted, rounded, value
from ifonly.show.text import visible

__all__ = ["Strong", "Worded", "bound_word", "promised", "sentence", "told", "worded"]

NAMED = 6  # changes that are all named; of more …
FIRST = 4  # … so many are, and the table has the others
LIMITS = 4  # that are named, where they are in the way
CLOSE = 0.005  # how far the probability of the printed numbers may be below that of the answer: half of the last digit printed
OFTEN = ("more often", "less often", "not at all")
LEAST_LESS = 0.1  # per cent: what may be saved is not said more finely

# What means something within a line of Markdown. A backslash before these works in every dialect; before the others, HTML among
# them, it does not, so that they are written by their number. Addresses are here because they would become links.
ESCAPED = re.compile(r"[\\`*_{}\[\]]|(?<=www)\.", re.IGNORECASE)
NUMBERED = re.compile(r"[<>&~|$]|:(?=//)")
OUTER_SPACE = re.compile(r"^\s|\s$")  # beside a space, a mark emphasises nothing


class Theirs(str):
    """A piece of a sentence that is the user's: a name, a value or a label, as it is."""


class Strong(Theirs):
    """One that is emphasised."""


@housed
def sentence(cf: Counterfactual, *, markdown: bool = False, shape: Sequence[int] | None = None) -> str:
    """The answer in words; with ``markdown``, names and decision are emphasised, and nothing else in them is markup."""
    return "".join(_marked(piece) if markdown else visible(piece) for piece in told(cf, shape))


def _marked(piece: str) -> str:
    """A piece in Markdown."""
    if not isinstance(piece, Theirs):
        return piece
    text = ESCAPED.sub(r"\\\g<0>", NUMBERED.sub(_entity, visible(piece)))
    return f"*{OUTER_SPACE.sub(_entity, text)}*" if text and isinstance(piece, Strong) else text


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


@housed
def told(cf: Counterfactual, shape: Sequence[int] | None = None) -> list[str]:
    """The answer in words, piece by piece; of a picture of this shape, nobody wants to hear of the pixels one by one."""
    if cf.status is Status.INVALID:
        return ["There is no answer: ", Theirs(quoted(cf.message)), "."]
    if not np.isfinite(cf.coordinates[1]).all():
        return ["The search was stopped before it found a change that makes the decision ", _called(cf, cf.target), "."]
    if cf.status is Status.UNREACHABLE:
        return _unreachable(cf)
    found = moves(cf)
    outcome = _outcome(cf, changed=bool(found))
    if not found:
        return ["Nothing has to change: ", *outcome, "."]
    if shape is None:
        changes = _changes(cf, found)
    else:
        channels = shape[2] if len(shape) == 3 else 1
        pixels = len({int(d) // channels for change in found for d in change.part.features})
        changes = [f"{count(pixels, 'pixel')} of the picture {'was' if pixels == 1 else 'were'} different"]
    return ["If only ", *changes, ", ", *outcome, ".", *_left_open(cf)]


def _left_open(cf: Counterfactual) -> list[str]:
    """What a search that did not end leaves open."""
    if cf.status is Status.STOPPED and cf.cost > 0:
        dearer = max(1 - max(cf.bound, 0.0) / (cf.cost if cf.prob is not None else cf.objective), 0.0)
        less = number(rounded(max(100 * dearer, LEAST_LESS), 2, up=True))  # "up to": not rounded down
        if cf.exhausted:
            return [f" (A change that costs up to {less} % less is enough at best with nothing to spare for rounding.)"]
        return [f" (The search was stopped: there may be a change that costs up to {less} % less.)"]
    return [" (The search was stopped before it converged.)"] if cf.status is Status.MAX_ITER else []


# ---- what would come of it ----


def _outcome(cf: Counterfactual, *, changed: bool) -> list[str]:
    """``the decision would be approved (81 %)``."""
    found, target = Decision.of(cf), _called(cf, cf.target)
    would = ("would still be" if found.before == found.target else "would be") if changed else "is already"
    before, p = found.p_before, found.p_after
    if before is None or p is None:
        return [f"the decision {would} ", target]
    if found.after == found.target:
        return [f"the decision {would} ", target, f" ({percent(p)})"]
    if not changed:
        return ["the probability of ", target, f" is already {percent(p)}"]
    texts = [percent(before), percent(p)]
    if texts[0] == texts[1]:
        texts = [f"{text} %" for text in pair(100 * before, 100 * p)]
    still, after = "still be" if found.before == found.after else "be", _called(cf, found.after)
    return [f"the decision would {still} ", after, ", but ", target, f" would have {texts[1]} instead of {texts[0]}"]


def _unreachable(cf: Counterfactual) -> list[str]:
    wanted = "" if cf.prob is None else f" with {asked(cf.prob)}"
    allowed = "" if cf.conditions is None else "allowed "
    best = "" if cf.model.hard else f": the best is {percent(float(cf.proba[cf.result.target]))}"
    held: list[list[str]] = [[Theirs(quoted(limit))] for limit in cf.blocking]
    if len(held) > LIMITS:
        held = [*held[: LIMITS - 1], [f"{len(held) - LIMITS + 1} more limits hold"]]
    while_ = [", while ", *_listed(held)] if held else []
    return [f"No {allowed}change makes the decision ", _called(cf, cf.target), f"{wanted}{best}", *while_, "."]


def _called(cf: Counterfactual, label: Any) -> Strong:
    """A class, as people call it."""
    return Strong(cf.model.words.label(label))


# ---- what has to change ----


def _changes(cf: Counterfactual, found: list[Change]) -> list[str]:
    """``duration were at most 24 instead of 36 and savings at least 500 instead of 100``."""
    named = found if len(found) <= NAMED else found[:FIRST]
    rest = len(found) - len(named)
    if cf.model.encoding.text:
        return _words(named, rest)
    clauses = [_clause(words, first=i == 0) for i, words in enumerate(worded(cf, named))]
    if rest:
        clauses.append([f"{count(rest, 'other feature')} {'was' if rest == 1 else 'were'} as the table lists"])
    return _listed(clauses)


def _words(named: list[Change], rest: int) -> list[str]:
    """``the words “great” and “love” appeared more often and “bad” less often``: weights mean nothing to a reader."""
    every = [(how, [["“", Strong(c.feature), "”"] for c in named if _how_often(c) == how]) for how in OFTEN]
    (how, first), *others = [(how, words) for how, words in every if words]
    the = "the word " if len(first) == 1 else "the words "
    verb = " did not appear" if how == "not at all" else f" appeared {how}"
    clauses = [[the, *_listed(first), verb], *([*_listed(words), f" {how}"] for how, words in others)]
    return _listed(clauses + ([[f"{count(rest, 'other word')} as the table lists"]] if rest else []))


def _how_often(change: Change) -> str:
    return "more often" if change.difference > 0 else "less often" if change.after > 0 else "not at all"


class Worded(NamedTuple):
    """A change as it is printed: ``duration``, ``36``, ``at most``, ``24``."""

    change: Change
    name: str
    before: str
    bound: str
    after: str
    unit: str = ""  # of both numbers, as people write it

    @property
    def label(self) -> str:
        """The name with its unit: ``term (months)``."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@housed
def worded(cf: Counterfactual, found: list[Change] | None = None) -> list[Worded]:
    """Changes of an answer as its sentence would name them: these, or all."""
    found = moves(cf) if found is None else found
    if not found or cf.model.encoding.text:
        return [Worded(change, change.feature, "", "", _how_often(change)) for change in found]
    bounds = [bound_word(cf, change) for change in found]
    digits = _digits(cf, found, bounds)
    return [_worded(cf, change, bound, digits) for change, bound in zip(found, bounds, strict=True)]


def _worded(cf: Counterfactual, change: Change, bound: str, digits: int) -> Worded:
    name = change.feature if not change.feature.isdigit() else f"feature {change.feature}"
    if change.part.kind == "category" or change.before is None:
        return Worded(change, name, value(change.before), "", value(change.after, digits))
    before, after = value(change.before, digits), value(change.after, digits)
    if bound and change.part.kind == "number":
        for n in range(digits, EXACT_DIGITS + 1):  # as many as it takes to tell them apart
            before, after = value(change.before, n), number(_printed(cf, change, bound, n), EXACT_DIGITS)
            if before != after:
                break
    elif digits == DIGITS:
        before, after = pair(change.before, change.after)
    return Worded(change, name, before, bound, after, change.part.unit)


def _clause(words: Worded, *, first: bool) -> list[str]:
    unit = f" {words.unit}" if words.unit else ""
    after = Strong(words.after) if words.change.part.kind == "category" else Theirs(words.after + unit)
    verb, bound = " were " if first else " ", f"{words.bound} " if words.bound else ""
    return [Strong(words.name), f"{verb}{bound}", after, " instead of ", Theirs(words.before)]


def bound_word(cf: Counterfactual, change: Change) -> str:
    """``at least`` or ``at most`` where going further keeps the decision, else nothing."""
    if change.part.kind == "category":
        return ""
    d, (source, x) = int(change.part.features[0]), cf.coordinates
    up = bool(x[d] > source[d])
    if not promised(cf.model, cf.result.target, d, 1.0 if up else -1.0):
        return ""
    if cf.conditions is not None:
        (lo, hi), rules = cf.conditions.limits.box(source), cf.conditions.limits.C
        if rules[:, d].any() or (x[d] >= hi[d] if up else x[d] <= lo[d]):
            return ""
    return "at least" if up is change.part.rising else "at most"


def promised(model: Model, k: int, d: int, sign: float) -> bool:
    """Whether class k never becomes less probable, and somewhere more so, if a feature alone goes on in this direction."""
    slope = sign * (model.A[:, d] - model.A[k, d])
    if model.scaling is not None:
        slope = slope / float(model.scaling.scale[d])
    return not (slope > 0).any() and bool((slope < 0).any())


def _digits(cf: Counterfactual, named: list[Change], bounds: list[str]) -> int:
    """How many digits it takes for the printed numbers to keep what the sentence says (others as they are in the answer)."""
    model, k, x = cf.model, cf.result.target, cf.coordinates[1]
    decided, p = int(model.scores(x).argmax()), float(softmax(model.scores(x))[k])
    for digits in range(DIGITS, EXACT_DIGITS):
        printed = x.copy()
        for change, bound in zip(named, bounds, strict=True):
            if change.part.kind == "number":
                shown, column = _printed(cf, change, bound, digits), change.part.column
                printed[change.part.features[0]] = shown if column is None else column.forward(np.array([shown]))[0]
        z = model.scores(printed)
        if int(z.argmax()) == decided and (model.hard or float(softmax(z)[k]) >= p - CLOSE):
            return digits
    return EXACT_DIGITS


def _printed(cf: Counterfactual, change: Change, bound: str, digits: int) -> float:
    """The number that is printed, in the user's units; never beyond a limit."""
    shown = rounded(float(change.after), digits, up=bound == "at least" if bound else None)
    if not bound or cf.conditions is None or (change.part.column is not None and change.part.column.maps):
        return shown
    lo, hi = cf.conditions.limits.box(cf.coordinates[0])
    d = int(change.part.features[0])
    return min(max(shown, float(lo[d])), float(hi[d]))


def _listed(parts: list[list[str]]) -> list[str]:
    """``a``, ``a and b``, ``a, b and c``."""
    between = ["", *[", "] * (len(parts) - 2), " and "]
    return [piece for link, part in zip(between, parts, strict=False) for piece in ([link] if link else []) + part]
