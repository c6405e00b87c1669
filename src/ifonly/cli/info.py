"""``ifonly info``: what is in a model file."""

from typing import Any

import numpy as np
import typer

from ifonly.cli.options import Json, ModelFile, Trust, emit, open_model
from ifonly.model import Model

__all__ = ["info"]

SHOWN = 12  # classes and features that are listed


def info(model: ModelFile, trust_pickle: Trust = False, as_json: Json = False) -> None:
    """What is in a model file: classes, features, and how they are read.

    [bold]Example[/bold]

    ifonly info credit.npz
    """
    classifier = open_model(model, trust=trust_pickle)
    found = {"file": str(model), **summary(classifier)}
    if as_json:
        emit(found)
        return
    kind = "scores only (ask with --margin)" if classifier.hard else "probabilities"
    typer.echo(f"{model}: a linear softmax with {found['n_classes']} classes and {found['n_features']} features, {kind}")
    typer.echo(f"classes   {_listed([str(label) for label in found['classes']])}")
    columns = [column["name"] + ("" if column["kind"] == "number" else f" ({column['kind']})") for column in found["columns"]]
    typer.echo(f"columns   {_listed(columns) if columns else 'without names: read by their place'}")
    scaled = "after the model's own scaler" if classifier.scaling is not None else "in the columns' own units"
    typer.echo(f"distance  {scaled}")


def summary(model: Model) -> dict[str, Any]:
    """A model as plain values."""
    if not model.encoding.columns:
        columns = [{"name": name, "kind": "number"} for name in model.feature_names or ()]
    else:
        columns = [
            {"name": c.name, "kind": c.kind, **({"levels": list(c.levels)} if c.levels else {})} for c in model.encoding.columns
        ]
    return {
        "n_classes": model.n_classes,
        "n_features": model.n_features,
        "classes": model.classes.tolist(),
        "columns": columns,
        "probabilities": not model.hard,
        "scaled": model.scaling is not None,
        "largest_weight": float(np.abs(model.A).max()),
    }


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f", … ({len(names)} in all)" if len(names) > SHOWN else "")
