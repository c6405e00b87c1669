"""``ifonly info``: what is in a model file, or what is installed."""

import platform
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import ifonly
from ifonly.cli.options import Json, Trust, emit, open_model
from ifonly.model import Model
from ifonly.native import compiled
from ifonly.show.table import visible

__all__ = ["info"]

Optional = Annotated[Path | None, typer.Argument(metavar="[MODEL]", help="A model file (ifonly.load).")]
SHOWN = 12  # classes and features that are listed
# A package, extras of it, and the extra that needs them.
NEED = re.compile(r"^([\w.-]+)(?:\[([\w,-]+)\])?.*?extra == ['\"]([\w-]+)", re.MULTILINE)


def info(model: Optional = None, trust_pickle: Trust = False, as_json: Json = False) -> None:
    """What is in a model file: classes, features, and how they are read. Without a file: what is installed here.

    [bold]Examples[/bold]

    ifonly info credit.npz

    ifonly info
    """
    classifier = None if model is None else open_model(model, trust=trust_pickle)
    found = installed() if classifier is None else {"file": str(model), **summary(classifier)}
    if as_json:
        emit(found)
    elif classifier is None:
        typer.echo(f"ifonly {found['version']}, Python {found['python']}; loops over rows: {found['row_loops']}")
        for extra, packages in found["extras"].items():
            there = ", ".join(f"{name} {version or '(missing)'}" for name, version in packages.items())
            typer.echo(f"{extra:<8}  {there}")
    else:
        _show(classifier, found)


def _show(classifier: Model, found: dict[str, Any]) -> None:
    kind = "scores only (ask with --margin)" if classifier.hard else "probabilities"
    typer.echo(
        f"{found['file']}: a linear softmax with {found['n_classes']} classes and {found['n_features']} features, {kind}"
    )
    typer.echo(f"classes   {_listed([str(label) for label in found['classes']])}")
    columns = [column["name"] + ("" if column["kind"] == "number" else f" ({column['kind']})") for column in found["columns"]]
    typer.echo(f"columns   {_listed(columns) if columns else 'without names: read by their place'}")
    scaled = "after the model's own scaler" if classifier.scaling is not None else "in the columns' own units"
    typer.echo(f"distance  {scaled}")


def summary(model: Model) -> dict[str, Any]:
    """A model as plain values."""
    named = model.columns if model.encoding.columns or model.feature_names else ()
    columns = [{"name": c.name, "kind": c.kind} | ({"levels": list(c.levels)} if c.levels else {}) for c in named]
    return {
        "n_classes": model.n_classes,
        "n_features": model.n_features,
        "classes": model.classes.tolist(),
        "columns": columns,
        "probabilities": not model.hard,
        "scaled": model.scaling is not None,
        "largest_weight": float(np.abs(model.A).max()),
    }


def installed() -> dict[str, Any]:
    """The version, and of each extra what is there of what it needs: its version, or None where it is missing."""
    needs = NEED.findall("\n".join(_or_none(metadata.requires, "ifonly") or ()))
    extras = {extra: {name: _or_none(metadata.version, name) for name in _packages(extra, needs)} for *_, extra in needs}
    rows = compiled()
    loops = f"compiled ({rows.active()})" if rows else "NumPy alone; where there is a C++20 compiler they are compiled"
    return {"version": ifonly.__version__, "python": platform.python_version(), "row_loops": loops, "extras": extras}


def _packages(extra: str, needs: list[tuple[str, str, str]]) -> Iterator[str]:
    """What an extra needs, and what the extras need that it is made of (``ifonly[cli]``)."""
    for package, others, of in needs:
        if of == extra and package == "ifonly":
            for other in others.split(","):
                yield from _packages(other, needs)
        elif of == extra:
            yield package


def _or_none(read: Callable[[str], Any], package: str) -> Any:
    try:
        return read(package)
    except metadata.PackageNotFoundError:
        return None


def _listed(names: list[str]) -> str:
    return ", ".join(map(visible, names[:SHOWN])) + (f", … ({len(names)} in all)" if len(names) > SHOWN else "")
