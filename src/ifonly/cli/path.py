"""``ifonly path``: one row, from the answer that stays closest to the one that is surest."""

from typing import Annotated

import numpy as np
from rich.table import Column, Table
from rich.text import Text
from typer import Option

from ifonly.cli import options
from ifonly.model.errors import InputError
from ifonly.show.numbers import Marks, marked, writing
from ifonly.show.table import visible

__all__ = ["path"]

FULL_BAR = 30  # characters


@options.with_groups
def path(
    model: options.ModelFile,
    data: options.Data,
    limits: options.LimitOptions,
    row: options.Row = 0,
    target: options.Target = None,
    first: Annotated[float, Option("--from", help="The largest λ: it multiplies the distance, so this is closest.")] = 1e2,
    last: Annotated[float, Option("--to", help="The smallest λ.")] = 1e-4,
    count: Annotated[int, Option("--count", min=1, help="How many, evenly on a logarithmic scale.")] = 13,
    key: options.Keys = None,
    trust_pickle: options.Trust = False,
    as_json: options.Json = False,
) -> None:
    """How the answer for one row moves as λ falls: further from the row, and surer.

    [bold]Example[/bold]

    ifonly path credit.npz people.csv --row 17 --target approved --count 9
    """
    classifier = options.open_model(model, trust=trust_pickle)
    for name, value in (("--from", first), ("--to", last)):
        if not 0 < value < np.inf:
            raise InputError(f"{name} must be a number > 0; got {value}")
    ask = options.ask_from(classifier, options.GoalOptions(target), limits)
    found = ask.path(options.one_row(classifier, data, row, key), lams=np.geomspace(first, last, count))
    k = classifier.class_index(found.target)
    steps = [
        {"lam": cf.lam, "probability": float(cf.proba[k]), "distance": cf.distance}
        | {"changes": cf.n_changes, "gap": cf.gap, "status": cf.status.name}
        for cf in found
    ]
    if as_json:
        options.emit({"row": row, "target": found.target, "path": steps})
        return
    out, wanted = options.console(), visible(found.model.words.label(found.target))
    out.print(f"{data}, row {row}, towards {wanted}: λ multiplies the distance", markup=False)
    heads = map(Text, ("λ", f"p({wanted})", "distance", "changes"))  # Text: [brackets] are no markup
    table = Table(*(Column(head, justify="right") for head in heads), "", show_edge=False, pad_edge=False)
    with writing(Marks.of(found.model.words)):
        for s in steps:
            numbers = f"{s['lam']:.3g}", f"{s['probability']:.4f}", f"{s['distance']:.4g}", f"{s['changes']}"
            table.add_row(*map(marked, numbers), "█" * round(FULL_BAR * s["probability"]))
    out.print(table)
