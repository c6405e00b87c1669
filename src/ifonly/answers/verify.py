"""`verify`: every claim of a recorded answer, recomputed from the model alone."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.answers.answer import Counterfactual
from ifonly.answers.change import Measure, Part
from ifonly.answers.claim import Claim
from ifonly.answers.record import claim_of, fingerprint, number_of, read
from ifonly.engines.limited_problem import Budget
from ifonly.engines.recourse import invert_within
from ifonly.model import Model
from ifonly.model.columns import Table
from ifonly.model.errors import CertificateError, InputError
from ifonly.model.readers import as_model
from ifonly.native import solve_row
from ifonly.problem import Certificate
from ifonly.problem.question import Wishes
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources

__all__ = ["Verified", "verify"]

Floats = NDArray[np.float64]

SAME = 1e-10  # relative: claims that are the same number, computed in another order
AS_GOOD = 1e-8  # relative: answers of two searches
FEW_NODES = 5_000  # a search of so many nodes is made again without asking


@dataclass(frozen=True)
class Verified(Certificate):
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
    claim = claim_of(data, own)
    _check_asked(data, claim)
    found = claim.verify()
    _check_status(claim, found)
    _check_numbers(data, claim)
    _check_bound(data, claim, found)
    _check_changes(data, claim, own)
    values = {field.name: getattr(found, field.name) for field in fields(Certificate)}
    return Verified(**values, **_searched(data, claim, again, time_limit))


# ---- what `Claim.verify` leaves ----


def _check_asked(data: dict[str, Any], claim: Claim) -> None:
    asked = data["asked"]
    if "lam" in asked and number_of(asked["lam"]) != claim.lam:
        raise CertificateError(f"λ is {claim.lam!r}; {asked['lam']!r} was asked for")
    if claim.within is None and "margin" in asked:
        raise CertificateError("a margin was asked for, but the record has no limits")


def _check_numbers(data: dict[str, Any], claim: Claim) -> None:
    """Numbers that follow from others."""
    certificate, result = data["certificate"], data["result"]
    discrete = claim.within is not None and claim.within.ground.discrete
    error_bound = math.nan if discrete else claim.grad_norm / claim.lam
    _same("cost", number_of(result["cost"]), claim.cost)
    _same("gap", number_of(certificate["gap"]), claim.gap)
    _same("error_bound", number_of(certificate["error_bound"]), error_bound)
    _check_gradient(claim, discrete)
    if claim.within is None:
        _same("bound", number_of(certificate["bound"]), claim.bound if claim.status.ok else math.nan)
        if certificate["multipliers"] != [] or certificate["best_bound"] != 1.0 or result["n_nodes"] != 0:
            raise CertificateError("multipliers, best_bound and n_nodes belong to limits, and the record has none")
    elif claim.status is not Status.UNREACHABLE:
        whole = claim.objective if "lam" in data["asked"] else claim.cost
        if not abs(whole - claim.gap - claim.bound) <= SAME * (1 + abs(whole)):
            raise CertificateError(f"the bound is {claim.bound!r}, but what was minimised less the gap {whole - claim.gap!r}")
        if claim.within.best_bound != 1.0:
            raise CertificateError("best_bound belongs to a probability that is out of reach")


def _check_gradient(claim: Claim, discrete: bool) -> None:
    """Whether ``gap`` is as large as ``grad_norm`` makes it."""
    if discrete or (claim.within is None and math.isinf(claim.lam)):
        _same("grad_norm", claim.grad_norm, 0.0)
    elif claim.within is not None and claim.status is not Status.UNREACHABLE:
        lam = claim.lam if math.isfinite(claim.lam) else 1.0
        least = claim.grad_norm**2 / (2 * lam) / (1.0 if claim.prob is None else lam)
        if claim.gap < min(least * (1 - SAME), claim.cost * (1 - SAME)):
            raise CertificateError(
                f"‖∂E(x)‖ is at most {claim.grad_norm!r}, and so the gap {least!r}; claimed is {claim.gap!r}"
            )


def _same(name: str, claimed: float, found: float) -> None:
    if claimed != found and not (math.isnan(claimed) and math.isnan(found)) and not abs(claimed - found) <= SAME * abs(found):
        raise CertificateError(f"{name} is {found!r}; the answer claims {claimed!r}")


def _check_bound(data: dict[str, Any], claim: Claim, found: Certificate) -> None:
    """Whether the fresh certificate supports the bound that is claimed."""
    least = claim.least(found)
    bound = number_of(data["certificate"]["bound"])
    if claim.status.ok and math.isfinite(least) and not bound <= least + SAME * (1 + abs(claim.cost) + abs(claim.objective)):
        raise CertificateError(f"the lower bound that can be proved is {least!r}; the answer claims {bound!r}")


def _check_changes(data: dict[str, Any], claim: Claim, own: Model) -> None:
    """Whether the user's own columns say what x does."""
    parts = {part.name: part for part in Measure.of(own, claim.within).parts(None)}
    listed = {str(name): (before, after) for name, before, after in data["changes"]}
    moved = {name for name, part in parts.items() if (claim.x != claim.source)[part.features].any()}
    if moved != set(listed) or len(listed) != len(data["changes"]):
        raise CertificateError(f"the changes that are listed are not those of x: {sorted(moved ^ set(listed))[:5]} differ")
    for name in moved:
        part = parts[name]
        for value, v in zip(listed[name], (claim.source, claim.x), strict=True):
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


def _check_status(claim: Claim, found: Certificate) -> None:
    if claim.prob is not None and claim.status is Status.UNREACHABLE:
        p = float(found.proba[claim.model.class_index(claim.target)])
        if p >= claim.prob:
            raise CertificateError(f"p(target) is {p!r}, and so the {claim.prob!r} that was asked for is within reach")
    if (
        claim.status is Status.UNREACHABLE
        and claim.prob is None
        and (claim.within is None or claim.within.ground.margin is None)
    ):
        raise CertificateError("with λ given nothing is out of reach")
    if claim.status is Status.STOPPED and (claim.within is None or not claim.within.ground.discrete):
        raise CertificateError("no search was made that could have been stopped")


def _searched(data: dict[str, Any], claim: Claim, again: bool | None, time_limit: float) -> dict[str, Any]:
    """What takes a search to recompute: solved again, where that is wanted and does not take too long."""
    discrete = claim.within is not None and claim.within.ground.discrete
    if not discrete and claim.status is not Status.UNREACHABLE:
        return {}
    nodes = 0 if claim.within is None else claim.within.n_nodes
    left = "the bound of the search was not recomputed"
    if again is False or (again is None and nodes > FEW_NODES):
        return {"notes": (f"{left}: it took {nodes} nodes; verify(…, again=True) solves the problem again",)}
    fresh = _solved(data, claim, Budget(nodes=10 * nodes + FEW_NODES, seconds=time_limit))
    if fresh.status is Status.STOPPED:
        return {"notes": (f"{left}: solving again was stopped after {time_limit:g} s or {10 * nodes + FEW_NODES} nodes",)}
    if claim.status is Status.UNREACHABLE:
        _compare_best(claim, fresh)
    else:
        _compare_least(claim, fresh, "objective" if "lam" in data["asked"] else "cost")
    return {"solved_again": True}


def _solved(data: dict[str, Any], claim: Claim, budget: Budget) -> Claim:
    sources = Sources(claim.model, claim.source[None], True)
    lam = number_of(data["asked"]["lam"]) if "lam" in data["asked"] else None
    if claim.within is None:
        z, sizes = sources.project_one()
        k = claim.model.class_index(claim.target)
        found = Counterfactual.of(
            solve_row(claim.model, z, sizes, k, lam=lam, prob=claim.prob)[1], claim.model, sources, k, prob=claim.prob
        )
    else:
        wishes = Wishes(claim.model, claim.target, lam, claim.prob)
        options = {"tol": None, "threads": None, "out": None, "progress": False}
        found = invert_within(claim.within.ground, sources, wishes, budget, **options)
    assert isinstance(found, Counterfactual)
    return found.claim


def _compare_best(claim: Claim, fresh: Claim) -> None:
    """A probability out of reach: whether it is, and whether the best is the best."""
    if fresh.status is not Status.UNREACHABLE:
        raise CertificateError(f"what was asked for is within reach: p(target) = {fresh.p_target!r} was found")
    if fresh.p_target > claim.p_target + AS_GOOD:
        raise CertificateError(f"the best probability is {fresh.p_target!r}; the answer claims {claim.p_target!r}")
    if claim.within is not None and fresh.within is not None:
        for name in ("best_bound", "bound", "gap"):
            limit, found = getattr(claim.within, name), getattr(fresh.within, name)
            if not abs(limit - found) <= AS_GOOD * (1 + abs(found)):
                raise CertificateError(f"{name} is {found!r}; the answer claims {limit!r}")


def _compare_least(claim: Claim, fresh: Claim, what: str) -> None:
    """A search: whether nothing better was found this time, and nothing below the bound."""
    if fresh.status is Status.UNREACHABLE:
        raise CertificateError("what was asked for is out of reach")
    value, found = getattr(claim, what), getattr(fresh, what)
    allowed = AS_GOOD * (1 + abs(found))
    if claim.status is not Status.STOPPED and value > found + allowed:
        raise CertificateError(f"the least {what} is {found!r}; the answer claims {value!r}")
    if claim.bound > found + allowed:
        raise CertificateError(f"the answer claims that no {what} is below {claim.bound!r}, and {found!r} was found")
