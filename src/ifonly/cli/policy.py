"""``ifonly policy``: a first policy from the data, and whether an edited one is about the model."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import ifonly
from ifonly.cli import options
from ifonly.model.errors import InputError
from ifonly.problem.policy import draft as first_policy
from ifonly.problem.policy.drafting import drafted_text
from ifonly.problem.policy.said import at

__all__ = ["check", "draft"]

MOST_ROWS = 100_000  # that are looked at


def draft(
    model: options.ModelFile,
    data: options.Data,
    out: Annotated[Path | None, Option("--out", "-o", metavar="FILE", help="Where to; by default it is printed.")] = None,
    target: options.Target = None,
    key: options.Keys = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace FILE if it is there.")] = False,
    trust_pickle: options.Trust = False,
) -> None:
    """Write a first policy from the data, to be edited: ranges, whole numbers, categories; what looks protected is frozen.

    [bold]Examples[/bold]

    ifonly policy draft credit.npz people.csv

    ifonly policy draft credit.npz people.csv --target approved -o policy.toml
    """
    if out is not None and out.exists() and not overwrite:
        raise InputError(f"{out} is there already; choose another name, or --overwrite")
    if out is not None and out.suffix.lower() != ".toml":
        raise InputError(f"a draft is TOML, for its comments: --out must end in .toml; got {out}")
    classifier = options.open_model(model, trust=trust_pickle)
    first = next(options.tables(classifier, data, key, MOST_ROWS), None)
    if first is None:
        raise InputError(f"{data} has no rows")
    features, table = first
    found = first_policy(classifier, features.read(table)[0], options.target_of(classifier, target))
    text = drafted_text(found, classifier)
    if out is None:
        typer.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8", newline="\n")
    frozen = [name for name, feature in found.features.items() if feature.frozen]
    typer.echo(f"{out}: {len(found.features)} columns; frozen, because they look protected: {', '.join(frozen) or 'none'}")


def check(
    model: options.ModelFile,
    policy: Annotated[Path, Argument(metavar="POLICY", help="A policy, .toml or .json.")],
    trust_pickle: options.Trust = False,
    as_json: options.Json = False,
) -> None:
    """Whether a policy can be read and everything in it is about the model; what is wrong is said with its place.

    [bold]Example[/bold]

    ifonly policy check credit.npz policy.toml
    """
    classifier = options.open_model(model, trust=trust_pickle)
    found = ifonly.Policy.load(policy)
    with at(str(policy)):
        found.check(classifier)
    if as_json:
        options.emit(found.to_dict())
        return
    frozen = sum(feature.frozen for feature in found.features.values())
    typer.echo(f"{policy}: {len(found.features)} columns, of which {frozen} stay as they are; all of it is about {model}")
