"""Rows on a cluster: `invert` for a Spark data frame, through ``mapInArrow``.

Spark reads, places, retries and writes; what happens to a batch of rows is what `frames.invert_batches` does with it, on one
thread, so that a task uses the one core it was given. The question (model, target, limits) travels as bytes: broadcast, once to
every executor, or within the plan where the session is one of Spark Connect, which has no broadcast. A Python worker opens it
once and keeps it for all tasks to come.
"""

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import ifonly
from ifonly.frames.inverting import Inverter, chunks
from ifonly.model.errors import InputError
from ifonly.model.extras import needing

with needing("data frames of Spark need pyspark, and Java 17 or newer", "spark"):
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
    from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["answers", "invert"]

KEPT = 4  # questions that a worker keeps open
ONE_MACHINE = ("threads", "out", "progress", "n")  # options of `ifonly.invert` that make no sense here


def invert(
    df: "DataFrame",
    model: Any,
    target: Any = None,
    *,
    keys: Sequence[str] | None = None,
    columns: Literal["changed", "all"] = "changed",
    prefix: str = "new_",
    chunk_rows: int | None = None,
    **question: Any,
) -> "DataFrame":
    """Answers for the rows of a Spark data frame, as a data frame.

    Nothing runs until the result is used. Each partition is solved by itself, chunk by chunk, its rows in order.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Of a classic session or of Spark Connect. Features are found by name among its columns.
    model, target
        As for :func:`ifonly.invert`, one for all rows.
    keys, columns, prefix, chunk_rows
        As for :func:`ifonly.frames.invert_batches`. With ``keys`` only these and the features are read: Spark prunes the other
        columns where they are stored.
    **question
        ``lam``, ``prob``, ``margin``, ``cost``, ``actions``, ``max_changes``, ``tol``, ``gap``, ``time_limit``, ``node_limit``,
        ``backend`` and ``policy`` as for :func:`ifonly.invert`, one for all rows. The file of a policy is read here, and not
        by the executors.

    Returns
    -------
    pyspark.sql.DataFrame
        The keys as they were, then the answer's columns: those of :func:`ifonly.frames.invert_batches`.

    Raises
    ------
    InputError
        At once, if the question or the columns are wrong. A row that is wrong does not raise: it is INVALID, with nulls.

    """
    unfit = [name for name in question if name in ONE_MACHINE]
    if unfit:
        raise InputError(f"{unfit[0]} is for one machine; Spark decides how many tasks run, and where rows go")
    if not isinstance(getattr(df, "schema", None), StructType):
        raise InputError(f"df must be a Spark data frame; got {type(df).__name__}")
    asking, layout = ifonly.ask(model, target, **question), {"keys": keys, "columns": columns, "prefix": prefix}
    inverter = Inverter(asking, to_arrow_schema(df.schema, timezone="UTC"), **layout)
    features, rows, given = inverter.features, inverter.chunk_rows(chunk_rows), df.schema
    if keys is not None:
        df = df.select(*(f"`{name.replace('`', '``')}`" for name in dict.fromkeys((*features.keys, *features.names))))
    made = [field for field in from_arrow_schema(inverter.schema) if field.name not in features.keys]
    schema = StructType([*(given[key] for key in features.keys), *made])
    # Spark's own look-up by name trips over dots and backticks, so that the columns travel under names without them.
    plain = df.toDF(*(f"c{i}" for i in range(len(df.columns))))
    return plain.mapInArrow(_task(df, pickle.dumps((asking, layout)), rows), schema)


def _task(df: "DataFrame", packed: bytes, rows: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What runs on a partition. A function inside a function, so that Spark sends its text and not this module's name.

    A worker without ifonly can then say so.
    """
    context = getattr(df.sparkSession, "sparkContext", None)  # Spark Connect has none
    sent = packed if context is None else context.broadcast(packed)
    names, name, version = df.columns, hashlib.sha256(packed).hexdigest(), ifonly.__version__

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            from ifonly.spark import answers
        except ImportError as error:
            raise RuntimeError(
                f"a Spark worker cannot import ifonly: {error}. Install ifonly {version} with its extra spark on "
                "every node, for the Python that executors run (PYSPARK_PYTHON)"
            ) from error
        named = (batch.rename_columns(names) for batch in batches)
        return answers(named, lambda: sent if isinstance(sent, bytes) else sent.value, name, version, rows)

    return task


# ---- on a worker ----

_open: dict[str, Inverter] = {}  # the questions that this process has opened, the latest last


def answers(batches: Iterator[Any], packed: Callable[[], bytes], name: str, version: str, rows: int) -> Iterator[Any]:
    """The answers to the batches of one partition, for a question that is opened once in a process."""
    first = next(batches, None)
    if first is None:
        return
    if name not in _open:
        if ifonly.__version__ != version:
            raise RuntimeError(
                f"a Spark worker has ifonly {ifonly.__version__}, the driver {version}: install the same on both"
            )
        try:
            ask, layout = pickle.loads(packed())
        except Exception as error:  # whatever a foreign library raises when it is not there, or not the same
            raise RuntimeError(
                f"a Spark worker cannot load the model: {type(error).__name__}: {error}. "
                "The Python that the executors run needs the packages that the driver has, in the same versions"
            ) from error
        while len(_open) >= KEPT:
            _open.pop(next(iter(_open)))
        _open[name] = Inverter(ask, first.schema, **layout)
    yield from map(_open[name], chunks(chain([first], batches), first.schema, rows))
