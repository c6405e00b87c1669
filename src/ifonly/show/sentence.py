"""An answer in one sentence, true as it stands.

"At least" and "at most" are said of a feature only where every larger (or smaller) value keeps the decision too, whatever the
others are. The margins of the rivals over the target, s_j = (a_j − a_k)ᵀx + …, are linear, so p_k never falls along a feature
if and only if no s_j rises along it: the signs of one column of ``A`` decide. Not where the feature stops at a limit, or a rule
ties it to others. Numbers are then rounded in the direction of the change, so that the printed one keeps the decision, and all
printed numbers together are put to the model, and get more digits until it agrees.

Names, values and labels are the user's, or of whoever wrote their file: in Markdown they read as they are, whatever they hold.
"""

import math
import re
from typing import Any, NamedTuple

import numpy as np

from ifonly.answers import Counterfactual
from ifonly.answers.change import Change, moves
from ifonly.model.numerics import softmax
from ifonly.problem.status import Status
from ifonly.show.decision import Decision
from ifonly.show.numbers import DIGITS, EXACT_DIGITS, asked, number, pair, percent, rounded, share, value
from ifonly.show.table import visible

__all__ = ["sentence"]

NAMED = 4  # changes that are named at most …
MAIN = 0.8  # … or fewer, where those make up this much of the cost
CLOSE = 0.005  # how far the probability of the printed numbers may be below that of the answer: half of the last digit printed

# What means something within a line of Markdown. A backslash before these works in every dialect; before the others, HTML among
# them, it does not, so that they are written by their number. Addresses are here because they would become links.
ESCAPED = re.compile(r"[\\`*_{}\[\]]|(?<=www)\.", re.IGNORECASE)
NUMBERED = re.compile(r"[<>&~|$]|:(?=//)")
OUTER_SPACE = re.compile(r"^\s|\s$")  # beside a space, a mark emphasises nothing


class _Writer(NamedTuple):
    """How texts of the user's are written into a sentence."""

    markdown: bool

    def text(self, given: Any) -> str:
        """A name, a value or a label as it is."""
        text = visible(str(given))
        return ESCAPED.sub(r"\\\g<0>", NUMBERED.sub(_entity, text)) if self.markdown else text

    def em(self, given: Any) -> str:
        """The same, emphasised."""
        text = self.text(given)
        return f"*{OUTER_SPACE.sub(_entity, text)}*" if self.markdown and text else text


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def sentence(cf: Counterfactual, *, markdown: bool = False) -> str:
    """The answer in words; with ``markdown``, names and decision are emphasised, and nothing else in them is markup."""
    write = _Writer(markdown)
    if cf.status is Status.INVALID:
        return "There is no answer: the source is not a finite input, or contradicts the limits."
    if not np.isfinite(cf.coordinates[1]).all():
        return f"The search was stopped before it found a change that makes the decision {write.em(cf.target)}."
    if cf.status is Status.UNREACHABLE:
        return _unreachable(cf, write)
    found = moves(cf)
    outcome = _outcome(cf, write, changed=bool(found))
    if not found:
        return f"Nothing has to change: {outcome}."
    wish = f"If only {_changes(cf, found, write)}, {outcome}."
    if cf.status is Status.STOPPED and cf.cost > 0:
        dearer = max(1 - max(cf.bound, 0.0) / (cf.cost if cf.prob is not None else cf.objective), 0.0)
        less = number(rounded(100 * dearer, 2, up=True))  # "up to": not rounded down
        wish += f" (The search was stopped: there may be a change that costs up to {less} % less.)"
    elif cf.status is Status.MAX_ITER:
        wish += " (The search was stopped before it converged.)"
    return wish


# ---- what would come of it ----


def _outcome(cf: Counterfactual, write: _Writer, *, changed: bool) -> str:
    """``the decision would be approved (81 %)``."""
    found = Decision.of(cf)
    would = ("would still be" if found.before == found.target else "would be") if changed else "is already"
    before, p = found.p_before, found.p_after
    if before is None or p is None:
        return f"the decision {would} {write.em(cf.target)}"
    if found.after == found.target:
        return f"the decision {would} {write.em(cf.target)} ({percent(p)})"
    if not changed:
        return f"the probability of {write.em(cf.target)} is already {percent(p)}"
    texts = [percent(before), percent(p)]
    if texts[0] == texts[1]:
        texts = [f"{text} %" for text in pair(100 * before, 100 * p)]
    still = "still be" if found.before == found.after else "be"
    gain = f"{write.em(cf.target)} would have {texts[1]} instead of {texts[0]}"
    return f"the decision would {still} {write.em(found.after)}, but {gain}"


def _unreachable(cf: Counterfactual, write: _Writer) -> str:
    wanted = "" if cf.prob is None else f" with {asked(cf.prob)}"
    allowed = "allowed " if cf.within is not None else ""
    best = "" if cf.model.hard else f": the best is {percent(float(cf.proba[cf.model.class_index(cf.target)]))}"
    held = [write.text(limit) for limit in cf.blocking]
    if len(held) > NAMED:
        held = [*held[: NAMED - 1], f"{len(held) - NAMED + 1} more limits hold"]
    while_ = f", while {_listed(held)}" if held else ""
    return f"No {allowed}change makes the decision {write.em(cf.target)}{wanted}{best}{while_}."


# ---- what has to change ----


def _changes(cf: Counterfactual, found: list[Change], write: _Writer) -> str:
    """``duration were at most 24 instead of 36 and savings at least 500 instead of 100``."""
    named = found if len(found) <= NAMED else found[: _enough(found)]
    rest = found[len(named) :]
    digits = _digits(cf, named)
    clauses = [_clause(cf, change, write, digits, first=i == 0) for i, change in enumerate(named)]
    if rest:
        made = "smaller changes were made" if len(rest) > 1 else "smaller change was made"
        clauses.append(f"{len(rest)} {made} ({share(sum(change.share for change in rest))} of the cost)")
    return _listed(clauses)


def _enough(found: list[Change]) -> int:
    """How many of the first changes make up most of the cost."""
    shares = np.cumsum([change.share for change in found[:NAMED]])
    return min(int(np.searchsorted(shares, MAIN)) + 1, NAMED)


def _clause(cf: Counterfactual, change: Change, write: _Writer, digits: int, *, first: bool) -> str:
    name = write.em(change.feature if not change.feature.isdigit() else f"feature {change.feature}")
    verb = " were" if first else ""
    if change.part.kind == "category" or change.before is None:
        after = write.em(change.after) if change.part.kind == "category" else write.text(value(change.after, digits))
        return f"{name}{verb} {after} instead of {write.text(value(change.before))}"
    bound, unit = bound_word(cf, change), f" {write.text(change.part.unit)}" if change.part.unit else ""
    if bound and change.part.kind == "number":
        after = number(_printed(cf, change, digits), EXACT_DIGITS)
        return f"{name}{verb} {bound} {after}{unit} instead of {value(change.before, digits)}"
    before, after = value(change.before, digits), value(change.after, digits)
    if digits == DIGITS:
        before, after = pair(change.before, change.after)
    return f"{name}{verb} {bound}{' ' if bound else ''}{write.text(after)}{unit} instead of {write.text(before)}"


def bound_word(cf: Counterfactual, change: Change) -> str:
    """``at least`` or ``at most`` where going further keeps the decision, else nothing."""
    if change.part.kind == "category":
        return ""
    d = int(change.part.features[0])
    source, x = cf.coordinates
    sign = math.copysign(1.0, float(x[d] - source[d]))
    k = cf.model.class_index(cf.target)
    slope = cf.model.A[:, d] - cf.model.A[k, d]
    if cf.model.scaling is not None:
        slope = slope / float(cf.model.scaling.scale[d])
    if (sign * slope > 0).any() or not (sign * slope < 0).any():
        return ""
    if cf.within is not None:
        limits = cf.within.conditions.limits
        lo, hi, _ = limits.around(source[None])
        if x[d] >= hi[0, d] if sign > 0 else x[d] <= lo[0, d]:
            return ""
        if limits.C[:, d].any():
            return ""
    rising = sign > 0 if change.part.rising else sign < 0
    return "at least" if rising else "at most"


def _digits(cf: Counterfactual, named: list[Change]) -> int:
    """How many digits it takes for the printed numbers to keep what the sentence says (others as they are in the answer)."""
    model, x = cf.model, cf.coordinates[1]
    k = model.class_index(cf.target)
    decided, p = int(model.scores(x).argmax()), float(softmax(model.scores(x))[k])
    for digits in range(DIGITS, EXACT_DIGITS):
        printed = x.copy()
        for change in named:
            if change.part.kind == "number":
                shown, column = _printed(cf, change, digits), change.part.column
                printed[change.part.features[0]] = shown if column is None else column.forward(np.array([shown]))[0]
        z = model.scores(printed)
        if int(z.argmax()) == decided and (model.hard or float(softmax(z)[k]) >= p - CLOSE):
            return digits
    return EXACT_DIGITS


def _printed(cf: Counterfactual, change: Change, digits: int) -> float:
    """The number that is printed, in the user's units; never beyond a limit."""
    after, bound = float(change.after), bound_word(cf, change)
    if not bound:
        return rounded(after, digits)
    shown = rounded(after, digits, up=bound == "at least")
    if cf.within is None or (change.part.column is not None and change.part.column.maps):
        return shown
    lo, hi, _ = cf.within.conditions.limits.around(cf.coordinates[0][None])
    d = int(change.part.features[0])
    return min(max(shown, float(lo[0, d])), float(hi[0, d]))


def _listed(parts: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
