"""What commands have in common: their options, and what these mean to the library."""

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer import Argument, Option

import ifonly
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.problem.actions import Actions
from ifonly.problem.cost import Cost
from ifonly.problem.policy.said import at
from ifonly.show.table import UNSEEN

__all__ = ["Data", "GoalOptions", "Json", "Keys", "LimitOptions", "ModelFile", "Row", "Target", "Trust"]
__all__ += ["ask_from", "console", "emit", "one_row", "open_model", "tables", "target_of", "with_groups"]

PIPE_WIDTH = 100  # columns of a table where no terminal says how wide it is

ModelFile = Annotated[
    Path, Argument(metavar="MODEL", help="A model file: .npz, .safetensors, .json, .onnx, .skops, … (ifonly.load).")
]
Data = Annotated[Path, Argument(metavar="DATA", help="Rows: .csv, .parquet, .arrow, or a folder of those.")]
Row = Annotated[int, Option("--row", min=0, help="Which row, counted from 0.")]
Target = Annotated[str | None, Option("--target", help="The wanted class; by default the nearest other.")]
Keys = Annotated[list[str] | None, Option("--key", metavar="NAME", help="A column that is no feature (repeatable).")]
Trust = Annotated[bool, Option("--trust-pickle", help="Open a pickle: that runs whatever its author put into it.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Names = list[str] | None


# ---- what is asked ----


@dataclass(frozen=True)
class GoalOptions:
    """Options that say what is wanted."""

    target: Target = None
    prob: Annotated[float | None, Option("--prob", help="The probability to reach; by default 0.5.")] = None
    lam: Annotated[float | None, Option("--lam", help="Instead: what the squared distance is multiplied with.")] = None
    margin: Annotated[float | None, Option("--margin", help="Instead: how far the target's score has to be ahead.")] = None


@dataclass(frozen=True)
class LimitOptions:
    """Options that say what may change, and what that costs."""

    freeze: Annotated[Names, Option("--freeze", metavar="NAME", help="A feature that stays as it is.")] = None
    bounds: Annotated[Names, Option("--bounds", metavar="NAME:LOW:HIGH", help="Limits; either may be empty.")] = None
    increase: Annotated[Names, Option("--increase", metavar="NAME", help="A feature that may only rise.")] = None
    decrease: Annotated[Names, Option("--decrease", metavar="NAME", help="A feature that may only fall.")] = None
    integer: Annotated[Names, Option("--integer", metavar="NAME", help="A feature that is a whole number.")] = None
    step: Annotated[Names, Option("--step", metavar="NAME:SIZE", help="A feature that is a multiple of SIZE.")] = None
    max_changes: Annotated[int | None, Option("--max-changes", help="At most so many features change.")] = None
    one_of: Annotated[
        Names, Option("--one-of", metavar="NAME,NAME,…", help="One-hot columns, of which the answer has one that is 1.")
    ] = None
    linear: Annotated[
        Names, Option("--linear", metavar="RULE", help='A rule, such as "debt - 0.4*income <= 0" (also >= and ==).')
    ] = None
    cost: Annotated[Names, Option("--cost", metavar="NAME:COST", help="What a unit of a feature costs.")] = None
    scale: Annotated[str, Option("--scale", help="The unit of distance: model (after its scaler) or raw.")] = "model"
    l1: Annotated[float, Option("--l1", help="What each unit of change costs besides: more of it, fewer changes.")] = 0.0
    policy: Annotated[
        Path | None, Option("--policy", metavar="FILE", help="What a house has decided: what no option here can undo.")
    ] = None


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command of which every parameter that is a group (`GoalOptions`, `LimitOptions`) stands for these options."""
    given = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in given if is_dataclass(p.annotation)}

    @wraps(command)
    def run(**values: Any) -> None:
        made = {name: kind(**{f.name: values.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        command(**values, **made)

    flat = [q for p in given for q in (inspect.signature(groups[p.name]).parameters.values() if p.name in groups else [p])]
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in flat]
    vars(run).update(__signature__=inspect.Signature(keywords), __annotations__={p.name: p.annotation for p in keywords})
    return run


def ask_from(model: Model, goal: GoalOptions, limits: LimitOptions, **more: Any) -> ifonly.Ask:
    """What the options ask for, within the policy if there is one; ``more`` are other fields of the question."""
    more |= vars(goal) | {"target": target_of(model, goal.target), "max_changes": limits.max_changes}
    return ifonly.ask(model, **more, cost=_cost(model, limits), actions=_actions(model, limits), policy=limits.policy)


def target_of(model: Model, text: str | None) -> Any:
    """The class that is called so."""
    labels = {str(label): label for label in model.classes.tolist()}
    if text in labels:
        return labels[text]
    if text in (None, "other", "opposite"):
        return text
    shown = ", ".join(list(labels)[:20])
    raise InputError(f"--target: unknown class {text!r}; the model's classes are {shown}{', …' if len(labels) > 20 else ''}")


def _actions(model: Model, limits: LimitOptions) -> Actions | None:
    """What may change; None where nothing is said. Checked one option at a time, so that errors name it."""

    def features(names: Names) -> list[Any]:
        return [model.feature_key(name) for name in names or ()]

    found: dict[str, Any] = {
        "frozen": features(limits.freeze),
        "bounds": dict(_bound(model, text) for text in limits.bounds or ()),
        "increase": features(limits.increase),
        "decrease": features(limits.decrease),
        "integer": features(limits.integer),
        "step": dict(_sized(model, text, "--step", "NAME:SIZE, such as amount:50") for text in limits.step or ()),
        "one_of": [features(text.split(",")) for text in limits.one_of or ()],
        "linear": [_rule(model, text) for text in limits.linear or ()],
    }
    given = {name: value for name, value in found.items() if value}
    for name, value in given.items():
        with at(f"--{OPTIONS.get(name, name)}"):
            Actions(**{name: value}).resolve(model)
    return Actions(**given) if given else None


OPTIONS = {"frozen": "freeze", "one_of": "one-of"}  # where they are not called as the library calls it
SENSE = re.compile(r"(.+?)(<=|>=|==)(.+)")
TERM = re.compile(r"(?:^|\s)\s*([+-])?\s*(?:(\d+(?:\.\d*)?|\.\d+)\s*\*\s*)?(.+?)(?=\s+[+-]\s|$)")


def _rule(model: Model, text: str) -> tuple[dict[Any, float], str, float]:
    """``debt - 0.4*income <= 0``, as the library takes it."""
    found = SENSE.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError
        terms: dict[Any, float] = {}
        for sign, number, name in TERM.findall(found[1].strip()):
            key = model.feature_key(name.strip())
            terms[key] = terms.get(key, 0.0) + float(f"{sign}{number or 1}")
        return terms, found[2], float(found[3])
    except ValueError:
        raise InputError(f'--linear must be a rule such as "debt - 0.4*income <= 0"; got {text!r}') from None


def _bound(model: Model, text: str) -> tuple[Any, tuple[Any, Any]]:
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[0]:
        raise InputError(f"--bounds must be NAME:LOW:HIGH, such as income:0: for at least 0; got {text!r}")
    return model.feature_key(parts[0]), (_end(parts[1]), _end(parts[2]))


def _end(text: str) -> Any:
    """A limit: a number, nothing, or a value of an ordinal."""
    try:
        return float(text) if text.strip() else None
    except ValueError:
        return text


def _sized(model: Model, text: str, option: str, form: str) -> tuple[Any, float]:
    """A feature and a number."""
    name, _, size = text.rpartition(":")
    try:
        return model.feature_key(name), float(size)
    except ValueError:
        raise InputError(f"{option} must be {form}; got {text!r}") from None


def _cost(model: Model, limits: LimitOptions) -> Cost | None:
    """What a change costs; None for the library's own measure."""
    if limits.scale not in ("model", "raw"):
        raise InputError(f"--scale must be model or raw; got {limits.scale!r}")
    each = dict(_sized(model, text, "--cost", "NAME:COST, such as income:2") for text in limits.cost or ())
    if each and limits.scale != "model":
        raise InputError("--cost goes with --scale model; give one of the two")
    with at("--cost"):
        Cost(each).per_unit(model)
    return Cost(each or limits.scale, l1=limits.l1) if each or limits.scale != "model" or limits.l1 else None


# ---- files in, text out ----


def open_model(path: Path, *, trust: bool) -> Model:
    """The model in a file; the library's hint about trust in the words of the command line."""
    try:
        return ifonly.load(path, trust=trust)
    except InputError as error:
        said = re.sub(r"(?s)\. If you know.*", ". If you know where it comes from: --trust-pickle", str(error))
        raise InputError(said.replace("trust=True", "--trust-pickle")) from None


def tables(model: Model, data: Path, keys: Sequence[str] | None, rows: int) -> Iterator[tuple[Any, Any]]:
    """A file in tables of so many rows, each with what reads it for the model."""
    from ifonly.frames.inverting import chunks
    from ifonly.frames.reading import Features, open_batches

    with open_batches(data) as reader:
        features = Features(model, reader.schema, keys)
        yield from ((features, table) for table in chunks(reader, reader.schema, rows))


def one_row(model: Model, data: Path, row: int, keys: Sequence[str] | None) -> Any:
    """A row of a file, as the model takes it."""
    seen = 0
    for features, table in tables(model, data, keys, 4096):
        if row < seen + len(table):
            X, bad = features.read(table.slice(row - seen, 1))
            if bad:
                raise InputError(f"{data}, row {row}: {bad[0]}")
            return X.iloc[0] if hasattr(X, "iloc") else X[0]
        seen += len(table)
    raise InputError(f"--row: {data} has {seen} row{'s'[: seen != 1]}, counted from 0; there is no row {row}")


def console() -> Console:
    """Where results are shown: as wide as the terminal, or as a page where there is none."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def emit(value: Any) -> None:
    """Print as JSON; what is no finite number is null, and what a terminal would act on is escaped."""
    text = json.dumps(value, default=lambda v: v.item() if hasattr(v, "item") else str(v))
    plain = json.loads(text, parse_constant=lambda _: None)
    lines = json.dumps(plain, ensure_ascii=False, indent=2).split("\n")
    typer.echo("\n".join(UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in lines))
