"""An answer as JSON that a third party can check: `to_json` writes it, `ifonly.verify` recomputes every claim of it.

The format, version 2, is one object:

``format``, ``version``
    "ifonly answer" and 2.
``model``
    ``fingerprint`` (see `fingerprint`), ``n_classes``, ``n_features``.
``features``
    The names of the columns of ``A``, or null; where the model has an encoding, its coordinates.
``source``, ``x``
    D numbers each, in the user's units.
``target``, ``asked``
    The wanted class, and ``{"prob": τ}``, ``{"lam": λ}`` or ``{"margin": m}``.
``cost``
    Null for the Euclidean distance where the classifier sees the features; else ``per_unit`` (D numbers: what one of the
    user's units of each feature costs), ``l1`` (D numbers, or 0) and ``matrix`` (D×D in place of ``per_unit``, or null).
``limits``
    Null, or what may change, by feature name (or number): ``frozen``, ``bounds``, ``increase``, ``decrease``, ``step``,
    ``one_of``, ``linear`` as in :class:`ifonly.Actions`, ``max_changes``, and ``uneven``: numbers that the model's pipeline
    bends, with the step that they have in the user's units (0 for the quantiles of a transformer).
``changes``
    What changed, as ``[column, from, to]`` in the user's own columns, the largest share of the cost first.
``result``
    ``status``, ``proba`` (K numbers), ``lam`` (of the certificate; infinite where the source is the answer), ``distance``,
    ``cost``, ``objective``, ``n_nodes``. λ and the objective are null where a search was for a goal: it has no use for them.
``certificate``
    ``grad_norm``, ``gap``, ``error_bound``, ``bound`` (a lower bound on what was minimised), ``multipliers`` (of the linear
    limits; none where whole numbers, categories or few changes took a search), ``best_bound`` (an upper bound on the
    probability that can be reached).
``proof``
    Null; or what shows that nothing is better (:class:`ifonly.problem.proof.Proof`, docs/proof.md): ``tree`` and
    ``multipliers``; or ``{"left_out": n}``, of a proof of n nodes that was left out because of its size.
``digest``
    SHA-256 of all of the above, as JSON with sorted keys and no spaces.

Numbers are decimal and give back every bit; "inf" and "nan" stand for what JSON has no number for. The digest finds accidents.
What was changed on purpose, digest and all, is found by recomputing, unless what the record then says is true as well: that
an answer is the best, say, without a limit that was in nobody's way. Version 1 had ``library`` and ``n_iter``, and no proofs;
it is still read.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ifonly.answers.change import moves
from ifonly.answers.one import Counterfactual
from ifonly.model import Model
from ifonly.model.errors import CertificateError, InputError
from ifonly.model.numerics import Floats
from ifonly.model.store import canonical, fingerprint
from ifonly.problem.actions import Actions, ResolvedActions
from ifonly.problem.asked import in_units_of_cost
from ifonly.problem.conditions import Conditions
from ifonly.problem.cost import Cost
from ifonly.problem.limits import Limits, Uneven
from ifonly.problem.proof import Proof
from ifonly.problem.results import Result
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources

__all__ = ["answer_of", "model_told", "number_of", "read", "to_dict", "to_json"]

FORMAT, VERSION = "ifonly answer", 2

TOO_DEAR = 1e150
MOST_NODES = 10_000  # of a proof that is written; larger ones are left out

_KEYS = {"format", "version", "model", "features", "source", "x", "target", "asked", "cost", "limits"}
_KEYS |= {"changes", "result", "certificate", "digest"}
_OF_VERSION = {1: _KEYS | {"library"}, 2: _KEYS | {"proof"}}
_PARTS = {
    "result": {"status", "proba", "lam", "distance", "cost", "objective", "n_nodes"},
    "certificate": {"grad_norm", "gap", "error_bound", "bound", "multipliers", "best_bound"},
    "cost": {"per_unit", "l1", "matrix"},
}
_FLAGS = ("frozen", "increase", "decrease")
_LIMITS = {*_FLAGS, "bounds", "step", "uneven", "one_of", "linear", "max_changes"}


# ---- writing ----


def to_json(cf: Counterfactual, path: str | os.PathLike[str] | None = None, *, most_nodes: int = MOST_NODES) -> str:
    """An answer as JSON, and into a file if a path is given; without its proof, if that has more than so many nodes."""
    text = json.dumps(to_dict(cf, most_nodes=most_nodes), ensure_ascii=False, allow_nan=False)
    if path is not None:
        Path(path).write_text(text + "\n", encoding="utf-8")
    return text


def to_dict(cf: Counterfactual, *, most_nodes: int = MOST_NODES) -> dict[str, Any]:
    """An answer as plain data, ready for JSON."""
    (source, x), conditions = cf.coordinates, cf.conditions
    discrete = conditions is not None and conditions.discrete
    unweighed = cf.searched and discrete and "lam" not in _asked(cf)
    multipliers = None if conditions is None or discrete else cf.result.multipliers
    record: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        **model_told(cf.model if cf.model.origin is None else cf.model.origin[0]),
        "source": _numbers(source),
        "x": _numbers(x),
        "target": _label(cf.target),
        "asked": _asked(cf),
        "cost": _cost_to(cf),
        "limits": None if conditions is None else _limits_to(conditions.limits, conditions.max_changes),
        "changes": [[c.feature, _value(c.before), _value(c.after)] for c in moves(cf, models_names=True)],
        "result": {
            "status": cf.status.name,
            "proba": _numbers(cf.proba),
            **{name: _number(getattr(cf, name)) for name in ("lam", "distance", "cost", "objective")},
            **({"lam": None, "objective": None} if unweighed else {}),
            "n_nodes": cf.n_nodes,
        },
        "certificate": {
            **{name: _number(getattr(cf, name)) for name in ("grad_norm", "gap", "error_bound")},
            "bound": _number(cf.bound if cf.status.ok or conditions is not None else math.nan),
            "multipliers": [] if multipliers is None else _numbers(multipliers),
            "best_bound": _number(cf.result.ceiling),
        },
        "proof": _proof_to(cf, most_nodes),
    }
    return {**record, "digest": _digest(record)}


def _proof_to(cf: Counterfactual, most_nodes: int) -> dict[str, Any] | None:
    proof = cf.proof if cf.searched else cf.result.proof  # else the multipliers of the certificate are all there is to it
    return None if proof is None else proof.to_dict() if len(proof) <= most_nodes else {"left_out": len(proof)}


def model_told(own: Model) -> dict[str, Any]:
    """What says which model an answer is for."""
    known = {"fingerprint": fingerprint(own), "n_classes": own.n_classes, "n_features": own.n_features}
    return {"model": known, "features": None if own.feature_names is None else list(own.feature_names)}


def _asked(cf: Counterfactual) -> dict[str, Any]:
    if cf.conditions is not None and cf.conditions.margin is not None:
        return {"margin": cf.conditions.margin}
    return {"lam": _number(cf.lam)} if cf.prob is None else {"prob": cf.prob}


def _cost_to(cf: Counterfactual) -> dict[str, Any] | None:
    conditions = cf.conditions
    if conditions is None:
        return None if cf.model.origin is None else {"per_unit": _numbers(cf.model.origin[1]), "l1": 0, "matrix": None}
    matrix = None if conditions.matrix is None else [_numbers(row) for row in conditions.matrix]
    l1 = _numbers(conditions.mu) if conditions.mu.any() else 0
    return {"per_unit": _numbers(conditions.per_unit) if matrix is None else None, "l1": l1, "matrix": matrix}


def _limits_to(limits: Limits, max_changes: int | None) -> dict[str, Any]:
    label = limits.model.feature_label
    bounded = np.flatnonzero(np.isfinite(limits.lo) | np.isfinite(limits.hi)).tolist()
    return {
        **{name: [label(d) for d in np.flatnonzero(getattr(limits, name)).tolist()] for name in _FLAGS},
        "bounds": {label(d): [float(v) if np.isfinite(v) else None for v in (limits.lo[d], limits.hi[d])] for d in bounded},
        "step": {label(d): float(limits.step[d]) for d in np.flatnonzero(limits.step).tolist()},
        "uneven": {label(part.feature): float(part.step) for part in limits.uneven},
        "one_of": [[label(int(d)) for d in group] for group in limits.groups],
        "linear": [
            [{label(d): float(row[d]) for d in np.flatnonzero(row).tolist()}, "==" if equal else "<=", float(rest)]
            for row, rest, equal in zip(limits.C, limits.rest, limits.equal, strict=True)
        ],
        "max_changes": None if max_changes is None else int(max_changes),
    }


# ---- reading ----


def read(record: Any) -> dict[str, Any]:
    """A record from JSON text, a file or a mapping, as it was written."""
    try:
        if isinstance(record, os.PathLike) or (isinstance(record, str) and not record.lstrip().startswith("{")):
            record = Path(record).read_bytes()
        if isinstance(record, Mapping):
            data = dict(record)
        else:
            data = json.loads(record, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_object)
    except OSError as error:
        raise InputError(f"the record is neither JSON nor a file with it ({error.strerror or error})") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the record is no JSON ({error})") from None
    _check_header(data)
    if data["version"] == 1:
        told = {key: value for key, value in data["result"].items() if key != "n_iter"}
        data = {key: value for key, value in data.items() if key != "library"} | {"result": told, "proof": None}
    return data


def _finite(word: str) -> float:
    if not math.isfinite(float(word)):
        raise ValueError(f"{word} is no number of JSON's")
    return float(word)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has the same name twice")
    return found


def _check_header(data: Any) -> None:
    if not isinstance(data, dict):
        raise InputError(f"this is no record of an answer: it is {type(data).__name__}, expected an object")
    if data.get("format") != FORMAT:
        raise InputError(f"this is no record of an answer: its format is {data.get('format')!r}, expected {FORMAT!r}")
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"the record's version must be a whole number from 1; got {version!r}")
    if version > VERSION:
        raise InputError(
            f"the record's version is {version}, and this ifonly reads up to {VERSION}: pip install --upgrade ifonly"
        )
    _check_keys("it has", data, _OF_VERSION[version])
    try:
        digest = _digest({key: value for key, value in data.items() if key != "digest"})
    except (TypeError, ValueError, RecursionError) as error:  # half of a character, numbers that JSON does not have
        raise InputError(f"the record is damaged: {error}") from None
    if data["digest"] != digest:
        raise InputError("the record is damaged: its content is not what was written (the digest differs)")


def _check_keys(who: str, data: Any, expected: set[str]) -> None:
    if set(data) != expected:
        raise InputError(f"the record is damaged: {who} too few or too many of {sorted(expected ^ set(data))}")


def answer_of(data: dict[str, Any], own: Model) -> Counterfactual:
    """The answer that a record describes, on its model."""
    source, x = (_vector(data[name], name, own.n_features) for name in ("source", "x"))
    if not np.isfinite(source).all():
        raise InputError("the record is damaged: its source is not finite")
    asked, told, certificate = data["asked"], data["result"], data["certificate"]
    for name, keys in _PARTS.items():
        if data[name] is not None:
            _check_keys(f"{name} has", data[name], keys)
    prob, margin = asked.get("prob"), asked.get("margin")
    if len(asked) != 1 or not set(asked) <= {"prob", "lam", "margin"} or (prob is not None and not 0 < prob < 1):
        raise InputError(f"what was asked for is one of prob, lam and margin; got {asked}")
    model, conditions = own, None
    limited: dict[str, Any] = {}
    if data["limits"] is not None:
        actions, most = ResolvedActions(limits=_limits_from(data["limits"], own)), data["limits"]["max_changes"]
        margin = None if margin is None else number_of(margin, finite=True)
        conditions = Conditions(own, _cost_from(data["cost"], own), actions, most, margin)
        limited = {"cost": number_of(told["cost"]), **{n: number_of(certificate[n]) for n in ("bound", "gap")}}
        limited["multipliers"] = _vector(certificate["multipliers"], "multipliers", None)
    elif data["cost"] is not None:
        model = in_units_of_cost(own, _cost_from(data["cost"], own))
    unweighed = told["lam"] is told["objective"] is None  # of a search for a goal, which has no use for them
    result = Result(
        target=model.class_index(_target(data["target"], own)),
        status=Status[told["status"]],
        distance=number_of(told["distance"]),
        **{name: math.nan if unweighed else number_of(told[name]) for name in ("lam", "objective")},
        grad_norm=number_of(certificate["grad_norm"]),
        proba=_vector(told["proba"], "proba", own.n_classes),
        x=x,
        n_nodes=_count(told["n_nodes"]),
        proof=_proof_from(data["proof"]),
        ceiling=number_of(certificate["best_bound"]),
        **limited,
    )
    return Counterfactual(model, Sources(model, source[None], True), result, prob, conditions=conditions)


def _count(v: Any) -> int:
    if type(v) is not int or v < 0:
        raise InputError(f"the record is damaged: {v!r} is no number of nodes")
    return v


def _proof_from(data: Any) -> Proof | None:
    left_out = isinstance(data, dict) and set(data) == {"left_out"} and _count(data["left_out"]) >= 0
    return None if data is None or left_out else Proof.from_dict(data)


def _limits_from(data: dict[str, Any], model: Model) -> Limits:
    """Limits by the names of the model's own features, nothing left to be worked out; no looser than its columns are."""
    _check_keys("its limits have", data, _LIMITS)
    if not all(isinstance(data[name], list) for name in (*_FLAGS, "one_of", "linear")):
        raise InputError(f"the record is damaged: {[*_FLAGS, 'one_of', 'linear']} are lists")
    D = model.n_features
    place = {model.feature_label(d): d for d in range(D)}
    lo = _each(place, {name: low for name, (low, _) in data["bounds"].items()}, -np.inf)
    hi = _each(place, {name: high for name, (_, high) in data["bounds"].items()}, np.inf)
    frozen, increase, decrease = (np.isin(np.arange(D), [place[name] for name in data[flag]]) for flag in _FLAGS)
    C = np.array([_each(place, weights) for weights, _, _ in data["linear"]]).reshape(-1, D)
    rest = np.array([number_of(value, finite=True) for _, _, value in data["linear"]])
    equal = np.array([{"==": True, "<=": False}[sense] for _, sense, _ in data["linear"]], dtype=bool)
    columns = {column.first: column for column in model.encoding.columns}
    uneven = tuple(
        Uneven(place[name], columns[place[name]], number_of(size, finite=True)) for name, size in data["uneven"].items()
    )
    groups = tuple(np.array([place[name] for name in group], dtype=np.intp) for group in data["one_of"])
    found = Limits(model, lo, hi, frozen, increase, decrease, _each(place, data["step"]), groups, C, rest, equal, uneven)
    _check_own_columns(found, Actions().resolve(model))
    return found


def _each(place: dict[Any, int], numbers: dict[Any, Any], other: float = 0.0) -> Floats:
    """A number for each feature; where the others are infinite, None is as if it were not there."""
    row = np.full(len(place), other)
    for feature, v in numbers.items():
        row[place[feature]] = other if v is None and math.isinf(other) else number_of(v, finite=True)
    return row


def _check_own_columns(found: Limits, own: Limits) -> None:
    groups = {tuple(group.tolist()) for group in found.groups}
    held = (found.lo >= own.lo).all() and (found.hi <= own.hi).all() and (~own.decrease | found.decrease | found.frozen).all()
    held &= {part.feature for part in own.uneven} <= {part.feature for part in found.uneven} | set(np.flatnonzero(found.frozen))
    if not held or not {tuple(group.tolist()) for group in own.groups} <= groups or (found.step < own.step).any():
        raise CertificateError("the record's limits are looser than those of the model's own columns")


def _cost_from(data: Any, model: Model) -> Cost:
    l1 = 0.0 if type(data["l1"]) is int and data["l1"] == 0 else _vector(data["l1"], "l1", model.n_features)
    if data["matrix"] is not None:
        if data["per_unit"] is not None:
            raise InputError("the record is damaged: its cost has a matrix, and per_unit besides")
        return Cost(l1=l1, matrix=np.array([_vector(row, "matrix", model.n_features) for row in data["matrix"]]))
    per_unit = _vector(data["per_unit"], "per_unit", model.n_features)
    if not ((per_unit > 0) & (per_unit < TOO_DEAR)).all():
        raise InputError("the record is damaged: what a unit costs is a number > 0, and its square one that floats have")
    return Cost(scale=per_unit, l1=l1)


# ---- JSON ----


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(record)).hexdigest()


def _number(v: Any) -> Any:
    return float(v) if math.isfinite(v) else str(float(v))


def _numbers(values: Any) -> list[Any]:
    return [_number(v) for v in np.asarray(values, dtype=np.float64).tolist()]


def number_of(v: Any, *, finite: bool = False) -> float:
    """A number of a record."""
    if type(v) not in (int, float) and (finite or type(v) is not str or v not in ("inf", "-inf", "nan")):
        raise InputError(f"the record is damaged: {str(v)[:100]!r} is no {'finite ' if finite else ''}number")
    return float(v)


def _vector(values: Any, name: str, size: int | None) -> Floats:
    found = np.array([number_of(v) for v in values], dtype=np.float64)
    if size is not None and found.shape != (size,):
        raise InputError(f"the record is damaged: {name} must have {size} numbers; got {found.size}")
    return found


def _value(v: Any) -> Any:
    """A value of a table: as it is where JSON has it, in words otherwise."""
    if isinstance(v, float):
        return _number(v)
    return v if v is None or isinstance(v, (str, int, bool)) else str(v)


def _label(label: Any) -> Any:
    return label if isinstance(label, (str, int, float, bool)) else repr(label)


def _target(stored: Any, model: Model) -> Any:
    for label in model.classes.tolist():
        if type(_label(label)) is type(stored) and _label(label) == stored:
            return label
    raise InputError(f"the record's target {stored!r} is no class of the model's")
