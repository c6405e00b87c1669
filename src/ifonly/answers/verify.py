"""`verify`: every claim of a recorded answer, recomputed from the model alone.

The answer itself is checked by `problem.checker`, which knows no engine; here is what a record adds to it: numbers that follow
from others, and the changes in the user's columns.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ifonly.answers.change import Part, parts_of
from ifonly.answers.one import Counterfactual
from ifonly.answers.record import answer_of, model_told, number_of, read
from ifonly.model import Model
from ifonly.model.columns import UserTable
from ifonly.model.errors import CertificateError, InputError
from ifonly.model.numerics import Floats
from ifonly.model.readers import as_model
from ifonly.problem.checker import Checked, check
from ifonly.problem.status import Status

__all__ = ["verify"]

SAME = 1e-10  # relative: claims that are the same number, computed in another order


def verify(record: str | os.PathLike[str] | Mapping[str, Any], model: Any, *, exact: bool = False) -> Checked:
    """Recheck an answer that :meth:`Counterfactual.to_json` wrote, from the model alone.

    Everything is recomputed from the model, and the source and x of the record: that x keeps every limit, to the last bit; its
    probabilities, distance, cost and objective; and the certificate that nothing is better.

    Parameters
    ----------
    record : JSON text, a path of a file with it, or the mapping that it stands for
    model : Model or fitted estimator
        The classifier that the answer is for; its fingerprint is compared with the record's.
    exact : bool
        Whether to compute with fractions, so that nothing depends on the rounding of floats but logarithms and exponentials,
        which are enclosed. Takes some milliseconds for each node of a proof, and is for models of up to a million weights.

    Returns
    -------
    Checked
        A :class:`Certificate`, with the ``bound`` (or ``ceiling``) that was proved and a ``claim``: "proved", or "not proved
        here" if the record comes without its proof; ``unproved`` then says what.

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
    data, own = read(record), as_model(model)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused where it matters
            return _verified(data, own, exact=exact)
    except (CertificateError, InputError):
        raise
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InputError(f"the record is damaged: {type(error).__name__}: {error}") from None


def _verified(data: dict[str, Any], own: Model, *, exact: bool) -> Checked:
    told = model_told(own)
    if data["model"] != told["model"]:
        raise InputError(f"the record is for another model: {data['model']}, and this one is {told['model']['fingerprint']}")
    if data["features"] != told["features"]:
        raise InputError(f"the record's features are not the model's: {str(data['features'])[:100]}")
    cf, asked = answer_of(data, own), data["asked"]
    if "lam" in asked and number_of(asked["lam"]) != cf.lam:
        raise CertificateError(f"λ is {cf.lam!r}; {asked['lam']!r} was asked for")
    if cf.conditions is None and "margin" in asked:
        raise CertificateError("a margin was asked for, but the record has no limits")
    found = check(cf.model, cf.conditions, *cf.coordinates, cf.prob, cf.result, exact=exact)
    _check_numbers(data, cf)
    _check_changes(data, cf, own)
    return found


def _check_numbers(data: dict[str, Any], cf: Counterfactual) -> None:
    """Numbers that follow from others."""
    certificate, told = data["certificate"], data["result"]
    numbers = {"cost": cf.cost, "gap": cf.gap, "error_bound": cf.error_bound}
    if cf.conditions is None:
        numbers["bound"] = cf.bound if cf.status.ok else math.nan
    for name, found in numbers.items():
        claimed = number_of({**certificate, **told}[name])
        if not (math.isclose(claimed, found, rel_tol=SAME) or (math.isnan(claimed) and math.isnan(found))):
            raise CertificateError(f"{name} is {found!r}; the answer claims {claimed!r}")
    if cf.conditions is None:
        if certificate["multipliers"] != [] or certificate["best_bound"] != 1.0 or told["n_nodes"] != 0:
            raise CertificateError("multipliers, best_bound and n_nodes belong to limits, and the record has none")
    elif cf.status is not Status.UNREACHABLE:
        whole = cf.objective if "lam" in data["asked"] else cf.cost
        if not abs(whole - cf.gap - cf.bound) <= SAME * (1 + abs(whole)):
            raise CertificateError(f"the bound is {cf.bound!r}, but what was minimised less the gap {whole - cf.gap!r}")
        if cf.result.ceiling != 1.0:
            raise CertificateError("best_bound belongs to a probability that is out of reach")


def _check_changes(data: dict[str, Any], cf: Counterfactual, own: Model) -> None:
    """Whether the user's own columns say what x does."""
    source, x = cf.coordinates
    parts = {part.name: part for part in parts_of(own, cf.conditions, plain=True)}
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
    table = UserTable.of({part.name: value}, (part.name,))
    return bool(np.array_equal(replace(part.column, place=0).read(table)[0], v))
