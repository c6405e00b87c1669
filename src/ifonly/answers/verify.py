"""`verify`: every claim of a recorded answer, recomputed from the model alone.

The answer itself is checked by `problem.checker`, which knows no engine; here is what a record adds to it: numbers that follow
from others, the changes in the user's columns, and (where that is wanted) a search made again.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.answers.change import Measure, Part
from ifonly.answers.one import Counterfactual
from ifonly.answers.record import answer_of, fingerprint, number_of, read
from ifonly.model import Model
from ifonly.model.columns import Table
from ifonly.model.errors import CertificateError, InputError
from ifonly.model.readers import as_model
from ifonly.problem.checker import Checked
from ifonly.problem.question import Asked, Question
from ifonly.problem.status import Status

__all__ = ["Verified", "verify"]

Floats = NDArray[np.float64]

SAME = 1e-10  # relative: claims that are the same number, computed in another order
AS_GOOD = 1e-8  # relative: answers of two searches
FEW_NODES = 5_000  # a search of so many nodes is made again without asking


@dataclass(frozen=True)
class Verified(Checked):
    """A certificate recomputed from a record.

    Attributes
    ----------
    solved_again : bool
        Whether the problem was solved again, and the answer found to be as good as any.
    notes : tuple of str
        What was not recomputed, and why.

    """

    solved_again: bool = False
    notes: tuple[str, ...] = ()


def verify(
    record: str | os.PathLike[str] | Mapping[str, Any], model: Any, *, again: bool | None = None, time_limit: float = 10.0
) -> Verified:
    """Recheck an answer that :meth:`Counterfactual.to_json` wrote, from the model alone.

    Everything is recomputed from the model, and the source and x of the record: that x keeps every limit, to the last bit; its
    probabilities, distance, cost and objective; and the certificate that nothing is better.

    Parameters
    ----------
    record : JSON text, a path of a file with it, or the mapping that it stands for
    model : Model or fitted estimator
        The classifier that the answer is for; its fingerprint is compared with the record's.
    again : bool, optional
        Whether to solve the problem again where the certificate takes a search to recompute (whole numbers, categories, few
        changes, a probability out of reach); by default if the search took at most a few thousand nodes.
    time_limit : float
        Seconds that solving again may take. If it takes longer, the result's ``notes`` say that the bound was not recomputed.

    Returns
    -------
    Verified
        A :class:`Certificate`, with ``solved_again`` and ``notes``.

    Raises
    ------
    CertificateError
        If anything that is claimed does not hold.
    InputError
        If the record is no record, damaged, of a later version, or for another model.

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], classes=["refused", "approved"])
    >>> text = ifonly.invert(model, [2.0, 1.0], "approved", prob=0.9).to_json()
    >>> ifonly.verify(text, model).gap < 1e-20
    True

    """
    data = read(record)
    own = as_model(model)
    try:
        return _verified(data, own, again, time_limit)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the record is damaged: {type(error).__name__}: {error}") from None


def _verified(data: dict[str, Any], own: Model, again: bool | None, time_limit: float) -> Verified:
    if data["model"] != {"fingerprint": fingerprint(own), "n_classes": own.n_classes, "n_features": own.n_features}:
        raise InputError(f"the record is for another model: {data['model']}, and this one is {fingerprint(own)}")
    if data["features"] != (None if own.feature_names is None else list(own.feature_names)):
        raise InputError(f"the record's features are not the model's: {str(data['features'])[:100]}")
    cf = answer_of(data, own)
    _check_asked(data, cf)
    found = cf.verify()
    _check_numbers(data, cf)
    _check_changes(data, cf, own)
    values = {field.name: getattr(found, field.name) for field in fields(Checked)}
    return Verified(**values, **_searched(data, cf, again, time_limit))


# ---- what a record adds to an answer ----


def _check_asked(data: dict[str, Any], cf: Counterfactual) -> None:
    asked = data["asked"]
    if "lam" in asked and number_of(asked["lam"]) != cf.lam:
        raise CertificateError(f"λ is {cf.lam!r}; {asked['lam']!r} was asked for")
    if cf.conditions is None and "margin" in asked:
        raise CertificateError("a margin was asked for, but the record has no limits")


def _check_numbers(data: dict[str, Any], cf: Counterfactual) -> None:
    """Numbers that follow from others."""
    certificate, told = data["certificate"], data["result"]
    _same("cost", number_of(told["cost"]), cf.cost)
    _same("gap", number_of(certificate["gap"]), cf.gap)
    _same("error_bound", number_of(certificate["error_bound"]), cf.error_bound)
    if cf.conditions is None:
        _same("bound", number_of(certificate["bound"]), cf.bound if cf.status.ok else math.nan)
        if certificate["multipliers"] != [] or certificate["best_bound"] != 1.0 or told["n_nodes"] != 0:
            raise CertificateError("multipliers, best_bound and n_nodes belong to limits, and the record has none")
    elif cf.status is not Status.UNREACHABLE:
        whole = cf.objective if "lam" in data["asked"] else cf.cost
        if not abs(whole - cf.gap - cf.bound) <= SAME * (1 + abs(whole)):
            raise CertificateError(f"the bound is {cf.bound!r}, but what was minimised less the gap {whole - cf.gap!r}")
        if cf.result.ceiling != 1.0:
            raise CertificateError("best_bound belongs to a probability that is out of reach")


def _same(name: str, claimed: float, found: float) -> None:
    if claimed != found and not (math.isnan(claimed) and math.isnan(found)) and not abs(claimed - found) <= SAME * abs(found):
        raise CertificateError(f"{name} is {found!r}; the answer claims {claimed!r}")


def _check_changes(data: dict[str, Any], cf: Counterfactual, own: Model) -> None:
    """Whether the user's own columns say what x does."""
    source, x = cf.coordinates
    parts = {part.name: part for part in Measure.of(own, cf.conditions).parts(None)}
    listed = {str(name): (before, after) for name, before, after in data["changes"]}
    moved = {name for name, part in parts.items() if (x != source)[part.features].any()}
    if moved != set(listed) or len(listed) != len(data["changes"]):
        raise CertificateError(f"the changes that are listed are not those of x: {sorted(moved ^ set(listed))[:5]} differ")
    for name in moved:
        part = parts[name]
        for value, v in zip(listed[name], (source, x), strict=True):
            if not _reads(part, value, v[part.features]):
                raise CertificateError(f"{name} is listed as {value!r}, and is {v[part.features].tolist()}")


def _reads(part: Part, value: Any, v: Floats) -> bool:
    """Whether a listed value stands for these numbers."""
    if part.column is None:
        return value == part.values[int(v.argmax())] if part.kind == "category" else value == float(v[0])
    if part.kind != "number" and value is not None and str(part.column.write(v[None])[0]) == str(value):
        return True
    table = Table.of({part.name: value}, (part.name,))
    return bool(np.array_equal(replace(part.column, place=0).read(table)[0], v))


# ---- a search, made again ----


def _searched(data: dict[str, Any], cf: Counterfactual, again: bool | None, time_limit: float) -> dict[str, Any]:
    """What takes a search to recompute: solved again, where that is wanted and does not take too long."""
    discrete = cf.conditions is not None and cf.conditions.discrete
    if not discrete and cf.status is not Status.UNREACHABLE:
        return {}
    left = "the bound of the search was not recomputed"
    if again is False or (again is None and cf.n_nodes > FEW_NODES):
        return {"notes": (f"{left}: it took {cf.n_nodes} nodes; verify(…, again=True) solves the problem again",)}
    nodes = 10 * cf.n_nodes + FEW_NODES
    fresh = _solved(data, cf, nodes, time_limit)
    if fresh.status is Status.STOPPED:
        return {"notes": (f"{left}: solving again was stopped after {time_limit:g} s or {nodes} nodes",)}
    if cf.status is Status.UNREACHABLE:
        _compare_best(cf, fresh)
    else:
        _compare_least(cf, fresh, "objective" if "lam" in data["asked"] else "cost")
    return {"solved_again": True}


def _solved(data: dict[str, Any], cf: Counterfactual, nodes: int, seconds: float) -> Counterfactual:
    from ifonly.engines import drive

    lam = number_of(data["asked"]["lam"]) if "lam" in data["asked"] else None
    limits = {} if cf.conditions is None else {"node_limit": nodes, "time_limit": seconds, "margin": cf.conditions.margin}
    asked = Asked(Question(cf.target, lam, cf.prob, **limits), cf.model, cf.conditions)
    result = drive.one(asked, cf.sources, asked.aim())
    return Counterfactual(cf.model, cf.sources, result, cf.prob, conditions=cf.conditions)


def _compare_best(cf: Counterfactual, fresh: Counterfactual) -> None:
    """A probability out of reach: whether it is, and whether the best is the best."""
    k = cf.result.target
    best, claimed = float(fresh.proba[k]), float(cf.proba[k])
    if fresh.status is not Status.UNREACHABLE:
        raise CertificateError(f"what was asked for is within reach: p(target) = {best!r} was found")
    if best > claimed + AS_GOOD:
        raise CertificateError(f"the best probability is {best!r}; the answer claims {claimed!r}")
    if cf.conditions is not None:
        for name, field in (("best_bound", "ceiling"), ("bound", "bound"), ("gap", "gap")):
            limit, found = getattr(cf.result, field), getattr(fresh.result, field)
            if not abs(limit - found) <= AS_GOOD * (1 + abs(found)):
                raise CertificateError(f"{name} is {found!r}; the answer claims {limit!r}")


def _compare_least(cf: Counterfactual, fresh: Counterfactual, what: str) -> None:
    """A search: whether nothing better was found this time, and nothing below the bound."""
    if fresh.status is Status.UNREACHABLE:
        raise CertificateError("what was asked for is out of reach")
    value, found = getattr(cf, what), getattr(fresh, what)
    allowed = AS_GOOD * (1 + abs(found))
    if cf.status is not Status.STOPPED and value > found + allowed:
        raise CertificateError(f"the least {what} is {found!r}; the answer claims {value!r}")
    if cf.bound > found + allowed:
        raise CertificateError(f"the answer claims that no {what} is below {cf.bound!r}, and {found!r} was found")
