"""What is kept of an answer, as plain JSON: how it ended, its numbers, what it came as, and whether it stands up to `verify`.

Not kept: iterations, nodes, histories, and the digits of gaps and gradients, which may improve; of a gap, whether it is small.
"""

from typing import Any

import numpy as np

import ifonly

__all__ = ["describe", "outcome"]

MOST_FEATURES = 12  # of an x that is kept whole; of a larger one a few projections and its norm are
PROJECTIONS = 4
DIGITS = 13  # kept of a number: some more than are compared
SMALL_GAP = 1e-6  # relative to 1 + what was minimised
STRAY = 1e-11  # relative to the size of a feature
NOTHING = 1e-9  # a distance that is rounding: how many features move with it says nothing
NUMBERS = ("distance", "cost", "objective", "lam", "p")


def outcome(ask: Any) -> Any:
    """What a question comes to: its answer, or the exception that it raised."""
    try:
        return ask()
    except Exception as error:
        return error


def describe(found: Any) -> Any:
    """An outcome as plain JSON."""
    if isinstance(found, BaseException):
        return {"error": type(found).__name__, "message": str(found)}
    if isinstance(found, dict):
        return {"parts": {str(name): describe(part) for name, part in found.items()}}
    if isinstance(found, ifonly.Counterfactual):
        return {"type": type(found).__name__, "kind": kind(found.x), "row": row(found)}
    if isinstance(found, (ifonly.Counterfactuals, ifonly.Path)):
        rows = [row(cf) for cf in found]
        columns = {name: [each.get(name) for each in rows] for name in dict.fromkeys(name for each in rows for name in each)}
        extra = {"target": plain(found.target)} if isinstance(found, ifonly.Path) else {}
        return {"type": type(found).__name__, "kind": kind(found.x), **extra, "agree": agree(found), "rows": columns}
    return {"type": type(found).__name__, "kind": kind(found), "value": values(found)}


def row(cf: Any) -> dict[str, Any]:
    """One answer."""
    hard = cf.model.hard
    out: dict[str, Any] = {"status": cf.status.name, "message": cf.message, "target": plain(cf.target), "prob": plain(cf.prob)}
    if cf.status is ifonly.Status.INVALID:
        return {**out, "x": shortened(np.ravel(numbers_of(cf)))}
    p = np.nan if hard else float(cf.proba[cf.model.class_index(cf.target)])
    out |= {"x": shortened(numbers_of(cf)), **{name: plain(getattr(cf, name)) for name in NUMBERS[:-1]}, "p": plain(p)}
    if not isinstance(cf.x, np.ndarray):
        out["given"] = values(cf.x) if np.size(values(cf.x)) <= MOST_FEATURES else None
    if cf.status is ifonly.Status.UNREACHABLE:
        out["blocking"] = list(cf.blocking)
    for name in ("p_together", "targets"):
        if hasattr(cf, name):
            out[name] = plain(getattr(cf, name))
    try:
        out["changes"] = int(cf.n_changes)
    except ifonly.InputError as error:  # a stream whose rows were not kept
        return {**out, "changes": str(error)}
    strays = stray(cf)
    if strays and cf.distance <= NOTHING:
        out["changes"] = None
    elif strays:
        out["stray"] = strays
    return {**out, "verify": verified(cf), "tight": tight(cf)}


def numbers_of(cf: Any) -> np.ndarray:
    """``x`` in float64, one number per feature of the classifier."""
    try:
        return cf.coordinates[1]
    except ifonly.InputError:  # a stream whose rows were not kept
        return np.asarray(cf.x, dtype=np.float64)


def stray(cf: Any) -> int:
    """How many features moved by no more than rounding, where others moved: they should have stayed."""
    source, x = cf.coordinates
    moved = np.abs(x - source)
    size = np.maximum(np.abs(source), float(moved.max(initial=0.0)))
    return int(((moved > 0) & (moved <= STRAY * size)).sum()) if np.isfinite(x).all() else 0


def verified(cf: Any) -> str:
    """What `verify` says."""
    try:
        cf.verify()
    except ifonly.CertificateError as error:
        return f"CertificateError: {error}"
    return "ok"


def tight(cf: Any) -> bool | None:
    """Whether the gap is small and the bound as near; None where nothing is proved, or it is out of reach."""
    if cf.status is ifonly.Status.UNREACHABLE or np.isnan(cf.gap):
        return None
    value = cf.cost if cf.prob is not None else cf.objective
    slack = SMALL_GAP * (1 + abs(value))
    return bool(cf.gap <= slack and value - slack <= cf.bound <= value + slack)


def agree(found: Any) -> bool:
    """Whether the arrays of a batch hold what its single answers say."""
    return all(
        np.allclose(getattr(found, name), [getattr(cf, name) for cf in found], rtol=1e-12, atol=0.0, equal_nan=True)
        for name in ("distance", "objective", "cost", "lam", "gap", "status")
    )


def shortened(x: np.ndarray) -> list[Any]:
    """A vector, or of a long one a few fixed projections and its norm."""
    if x.size <= MOST_FEATURES:
        return plain(x)
    signs = np.random.default_rng(x.size).choice([-1.0, 1.0], size=(PROJECTIONS, x.size))
    return plain(np.append(signs @ x / np.sqrt(x.size), np.linalg.norm(x)))


def plain(value: Any) -> Any:
    """Numbers as JSON has them, to some digits; what is not finite as a string."""
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not np.isfinite(value):
            return repr(value)
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def kind(x: Any) -> str:
    """What something came as: its type, and the types and names of what it holds."""
    library = type(x).__module__.split(".", maxsplit=1)[0]
    name = type(x).__name__ if library in ("builtins", "numpy") else f"{library}.{type(x).__name__}"
    if library == "pandas" and name.endswith("DataFrame"):
        columns = ", ".join(f"{c}: {_dtype(t)}" for c, t in x.dtypes.items())
        return f"{name}({columns}; index {x.index.tolist()[:20]})"
    if library == "pandas":
        return f"{name}({_dtype(x.dtype)}; index {x.index.tolist()[:20]}; name {x.name})"
    if library == "polars":
        return f"{name}({', '.join(f'{c}: {t}' for c, t in zip(x.columns, x.dtypes, strict=True))})"
    if isinstance(x, dict):
        return f"{name}({', '.join(f'{key}: {type(value).__name__}' for key, value in x.items())})"
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{name}({x.dtype}, {tuple(x.shape)})"
    return name


def _dtype(dtype: Any) -> str:
    """A column's type; text is text, whatever a version of pandas calls it."""
    return "text" if str(dtype) in ("object", "str", "string") else str(dtype)


def values(x: Any) -> Any:
    """What something holds, as lists."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().double().numpy()
    if isinstance(x, dict):
        return plain(list(x.values()))
    if hasattr(x, "rows") and hasattr(x, "columns"):  # polars
        return plain(x.rows())
    if hasattr(x, "toarray"):
        x = x.toarray()
    found = x.to_numpy(dtype=object).tolist() if hasattr(x, "to_numpy") else x.tolist() if hasattr(x, "tolist") else x
    return plain(found)
