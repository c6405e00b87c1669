"""Spark for real: two workers, partitions of all sizes, rows and models that are no good, an executor that is killed."""

import datetime
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from helpers import cluster as spark_cluster
from helpers.data import page

import ifonly
from ifonly import Actions, Cost, InputError, Model, frames

spark_cluster.check()
spark = import_module("ifonly.spark")
pytestmark = pytest.mark.filterwarnings(spark_cluster.QUIET)

NAMES = [f"f{d}" for d in range(6)]
ROWS = int(os.environ.get("IFONLY_SPARK_ROWS", "8000"))  # of the test that kills an executor
PARTS = 8
LIMITS = Actions(frozen=["f0"], bounds=dict.fromkeys(NAMES[1:], (-2.0, 2.0)))


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with spark_cluster.cluster(tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.fixture(scope="module")
def model():
    return Model.binary([1.0, -0.5, 0.3, 0.8, -0.2, 0.6], -1.0, ["refused", "approved"], NAMES)


def rows(n, seed=0):
    """A table with a key and six features, one row in fifty outside its limits."""
    X = np.random.default_rng(seed).normal(size=(n, len(NAMES)))
    return pa.table({"id": np.arange(n), **dict(zip(NAMES, X.T, strict=True))})


def here(model, table, target="approved", **question):
    """The answers of one machine."""
    return frames.invert_batches(model, table, target, **question).read_all()


def collected(df, key="id"):
    """A data frame's rows as a table, ordered by a key."""
    return pa.Table.from_batches(df.toArrow().to_batches()).sort_by(key).combine_chunks()


def same(found, expected):
    """Every value of every column, whatever Spark thinks of nullability."""
    assert found.schema.names == expected.schema.names
    for name in expected.schema.names:
        assert found.column(name).equals(expected.column(name).cast(found.column(name).type)), name


# ---- answers ----


@pytest.mark.parametrize(
    "question",
    [
        {"prob": 0.7, "actions": LIMITS},
        {"prob": 0.7, "actions": LIMITS, "cost": Cost(l1=0.1), "columns": "all", "keys": ["id"]},
        {"margin": 0.5, "actions": LIMITS, "chunk_rows": 100},
        {"prob": 0.6, "actions": Actions(integer=["f1"], bounds={"f1": (-3, 3)}), "max_changes": 2},
    ],
    ids=["limits", "l1", "margin", "whole numbers"],
)
def test_a_cluster_gives_what_one_machine_gives(session, model, question):
    table = rows(600)
    df = session.createDataFrame(table).repartition(3)
    same(collected(spark.invert(df, model, "approved", **question)), here(model, table, **question))


def test_a_policy_is_read_at_the_driver_and_kept_to_by_the_workers(session, model, tmp_path):
    house = {"target": "approved", "prob": 0.7, "features": {"f0": {"frozen": True}, "f1": {"name": "first", "high": 0.5}}}
    ifonly.Policy.from_dict(house).save(tmp_path / "policy.toml")
    table = rows(600)
    df = spark.invert(session.createDataFrame(table).repartition(3), model, policy=tmp_path / "policy.toml", columns="all")
    (tmp_path / "policy.toml").unlink()
    found = collected(df)
    actions = Actions(frozen=["f0"], bounds={"f1": (None, 0.5)})
    same(found, here(model, table, prob=0.7, actions=actions, columns="all"))  # and columns keep the names of the data
    with pytest.raises(InputError, match="the policy fixes the probability to reach"):
        spark.invert(session.createDataFrame(table), model, policy=house, prob=0.6)


def test_three_classes_agree_to_rounding(session):
    """Matrix products round differently in chunks of other sizes."""
    rng = np.random.default_rng(4)
    model = Model(rng.normal(size=(3, 6)), rng.normal(size=3), ["a", "b", "c"], NAMES)
    table = rows(3000)
    found = collected(spark.invert(session.createDataFrame(table).repartition(3), model, "b", prob=0.8))
    expected = here(model, table, "b", prob=0.8)
    for name in ("distance", "new_f3"):
        np.testing.assert_allclose(found.column(name).to_numpy(), expected.column(name).to_numpy(), rtol=1e-9, atol=1e-9)


def test_partitions_of_all_sizes_empty_ones_too(session, model):
    """One has nearly all rows, some have one, many none; Arrow batches are far smaller than a chunk, or larger."""
    from pyspark.sql import functions

    table = rows(2000)
    expected = here(model, table, prob=0.7, actions=LIMITS)
    df = session.createDataFrame(table)
    skewed = df.repartition(8, functions.when(df.id > 3, -1).otherwise(df.id))
    counts = skewed.groupBy(functions.spark_partition_id()).count().collect()
    assert max(row["count"] for row in counts) > 1900
    assert len(counts) < 8  # some have nothing
    for batch in ("7", "1000000"):
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch)
        same(collected(spark.invert(skewed, model, "approved", prob=0.7, actions=LIMITS)), expected)
    session.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    empty = spark.invert(df.where("id < 0"), model, "approved", prob=0.7, actions=LIMITS)
    assert empty.count() == 0
    assert empty.columns == expected.schema.names


def test_keys_of_all_kinds_are_handed_through_as_they_are(session, model):
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    table = rows(3).append_column("when", pa.array([when] * 3))
    table = table.append_column("a.`b", pa.array(["x", None, "z"])).append_column("money", pa.array([Decimal("1.50")] * 3))
    table = table.append_column("tags", pa.array([["q"], [], None])).append_column("unused", pa.array([0] * 3))
    df = session.createDataFrame(table)
    keys = ["when", "a.`b", "money", "tags", "id"]  # Spark itself cannot look up the second by its name
    found = spark.invert(df, model, "approved", keys=keys, prob=0.7)
    assert [found.schema[key] for key in keys] == [df.schema[key] for key in keys]
    assert [f.dataType.simpleString() for f in found.schema][5:12] == ["string", *["double"] * 4, "string", "string"]
    before, after = (frame.select("id", "when", "money", "tags", "`a.``b`").orderBy("id").collect() for frame in (df, found))
    assert after == before


def test_decimals_and_whole_numbers_are_numbers_and_text_is_refused(session, model):
    table = rows(50)
    whole = table.set_column(1, "f0", pa.array(range(50), pa.int32()))
    whole = whole.set_column(2, "f1", pa.array([Decimal(i % 3) for i in range(50)], pa.decimal128(9, 2)))
    found = spark.invert(session.createDataFrame(whole), model, "approved", prob=0.7, actions=LIMITS)
    same(collected(found), here(model, whole, prob=0.7, actions=LIMITS))
    words = session.createDataFrame(table.set_column(3, "f2", pa.array(["1"] * 50)))
    with pytest.raises(InputError, match="column 'f2' must be numbers; it is string"):
        spark.invert(words, model, "approved")


def test_a_pipeline_with_categories(session):
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"amount": rng.integers(1, 100, 120) * 100.0, "job": rng.choice(["clerk", "cook"], 120)})
    y = np.where(frame["amount"] / 5000 + (frame["job"] == "cook") + rng.normal(size=120) > 1.5, "refused", "approved")
    columns = make_column_transformer((StandardScaler(), ["amount"]), (OneHotEncoder(), ["job"]))
    bank = make_pipeline(columns, LogisticRegression()).fit(frame, y)
    table = pa.Table.from_pandas(frame).append_column("id", pa.array(range(120)))
    found = spark.invert(session.createDataFrame(table).repartition(2), bank, "approved", prob=0.7)
    same(collected(found), here(bank, table, prob=0.7))


def test_only_keys_and_features_are_read_from_storage(session, model, tmp_path, capsys):
    pa.parquet.write_table(rows(100).append_column("note", pa.array(["n"] * 100)), tmp_path / "t.parquet")
    df = session.read.parquet(str(tmp_path / "t.parquet"))
    spark.invert(df, model, "approved", keys=["id"]).explain()
    read = [line for line in capsys.readouterr().out.splitlines() if "ReadSchema" in line]
    assert "struct<id:bigint,f0:double" in read[0]
    assert "note" not in read[0]


# ---- what is wrong ----


def test_a_poisoned_row_is_one_invalid_row(session, model):
    table = rows(500)
    f1 = table.column("f1").to_pylist()
    f1[3:6] = None, float("nan"), float("inf")
    poisoned = table.set_column(2, "f1", pa.array(f1, pa.float64()))
    found = collected(spark.invert(session.createDataFrame(poisoned), model, "approved", prob=0.7, actions=LIMITS))
    same(found, here(model, poisoned, prob=0.7, actions=LIMITS))
    reasons = {i: reason for i, reason in enumerate(found.column("reason").to_pylist()) if reason}
    assert reasons == {3: "f1 is missing", 4: "f1 is nan", 5: "f1 is inf"}
    assert [i for i, s in enumerate(found.column("status").to_pylist()) if s == "INVALID"] == [3, 4, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "perhaps"}, "unknown class 'perhaps'"),
        ({"prob": 2.0}, "prob must be strictly between 0 and 1"),
        ({"keys": ["number"]}, r"column 'number' \(a key\) is missing"),
        ({"actions": Actions(frozen=["height"])}, "unknown feature 'height'"),
        ({"chunk_rows": 0}, "chunk_rows must be 1 or more"),
        ({"threads": 2}, "threads is for one machine"),
        ({"model": object()}, "object"),
    ],
)
def test_a_wrong_question_is_refused_at_the_driver_before_anything_runs(session, model, options, message):
    given = {"model": model, "target": "approved", **options}
    with pytest.raises((InputError, ifonly.UnsupportedModelError), match=message):
        spark.invert(session.createDataFrame(rows(5)), **given)


def test_columns_are_checked_at_the_driver(session, model):
    df = session.createDataFrame(rows(5))
    with pytest.raises(InputError, match=r"column 'f3' \(a feature\) is missing; the columns are id, f0"):
        spark.invert(df.drop("f3"), model, "approved")
    with pytest.raises(InputError, match="column 'status' is handed through as a key"):
        spark.invert(df.withColumnRenamed("id", "status"), model, "approved")
    with pytest.raises(InputError, match="df must be a Spark data frame; got Table"):
        spark.invert(rows(5), model, "approved")


class Elsewhere:
    """What a model of another library is to a worker that does not have it."""

    def __reduce__(self):
        return import_module, ("no_such_library",)


def test_a_model_that_a_worker_cannot_load_is_said_at_the_driver(session, model, monkeypatch):
    from pyspark.errors import PythonException

    packed = pickle.dumps(Elsewhere())
    monkeypatch.setattr(spark.pickle, "dumps", lambda question: packed)
    df = spark.invert(session.createDataFrame(rows(5)), model, "approved")
    monkeypatch.undo()
    message = "a Spark worker cannot load the model: ModuleNotFoundError: No module named 'no_such_library'"
    with pytest.raises(PythonException, match=message):
        df.collect()


def test_a_worker_without_ifonly_or_with_another_version_says_so():
    from pyspark import cloudpickle

    local = SimpleNamespace(sparkSession=None, columns=[])  # no broadcast: the bytes travel with the function
    task = cloudpickle.dumps(spark._task(local, b"", 100))
    script = (
        "import pickle, sys; from pyspark import cloudpickle; sys.modules['ifonly'] = None\n"
        "try: pickle.load(sys.stdin.buffer)(iter([]))\nexcept RuntimeError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], input=task, capture_output=True, check=True)
    assert "a Spark worker cannot import ifonly" in done.stdout.decode()
    assert f"Install ifonly {ifonly.__version__} with its extra spark" in done.stdout.decode()
    batches = iter(rows(3).to_batches())
    with pytest.raises(RuntimeError, match=r"a Spark worker has ifonly .*, the driver 0\.0\.0: install the same on both"):
        next(spark.answers(batches, bytes, "another", "0.0.0", 100))


def test_a_worker_opens_a_question_once_and_keeps_a_few(model):
    packed = pickle.dumps((ifonly.ask(model, "approved", prob=0.7), {}))
    opened = []

    def read():
        opened.append(1)
        return packed

    for name in ["one", "one", "two", "one"]:
        assert len(list(spark.answers(iter(rows(3).to_batches()), read, name, ifonly.__version__, 100))) == 1
    assert len(opened) == 2
    for i in range(spark.KEPT):
        list(spark.answers(iter(rows(3).to_batches()), read, f"more {i}", ifonly.__version__, 100))
    assert len(spark._open) == spark.KEPT


# ---- the page ----


def test_what_the_page_shows_runs(session, tmp_path, monkeypatch):
    """Every block of Python in docs/spark.md, one after the other, with the names it takes for granted."""
    blocks = re.findall(r"```python\n(.*?)```", page("spark.md"), re.DOTALL)
    assert len(blocks) >= 2
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people").mkdir()
    names = ["income", "debt", "age"]
    X = np.random.default_rng(0).normal(size=(500, 3))
    pa.parquet.write_table(pa.table({"id": np.arange(500), **dict(zip(names, X.T, strict=True))}), "people/a.parquet")
    space = {"session": session, "model": Model.binary([1.0, -1.0, 0.1], 0.0, ["refused", "approved"], names)}
    for block in blocks:
        exec(block.replace('"people"', f'"{tmp_path}/people"').replace('"answers"', f'"{tmp_path}/answers"'), space)
    assert pa.dataset.dataset(tmp_path / "answers").count_rows() == 500


# ---- Spark Connect ----

CONNECT = """
import sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
address, *sys.path[:0] = sys.argv[1:]
import test_spark
from ifonly import spark
from pyspark.sql import SparkSession
session = SparkSession.builder.remote(address).getOrCreate()
assert not hasattr(session, "sparkContext")
model, table = test_spark.model.__wrapped__(), test_spark.rows(1000)
question = {"prob": 0.7, "actions": test_spark.LIMITS}
df = session.createDataFrame(table).repartition(2)
answers = spark.invert(df, model, "approved", **question)
test_spark.same(test_spark.collected(answers), test_spark.here(model, table, **question))
try:
    spark.invert(df.drop("f3"), model, "approved")
except test_spark.InputError as error:
    print(error)
session.stop()
"""


def test_through_spark_connect(session, tmp_path):
    """In a process of its own: a process has sessions of one kind."""
    for name in ("grpc", "grpc_status", "google.rpc"):
        try:
            import_module(name)
        except ImportError:
            spark_cluster.missing(f"Spark Connect needs {name}, which is not installed (pyspark[connect])")
    of_this_process = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    environment = {name: value for name, value in os.environ.items() if name not in of_this_process}
    arguments = [sys.executable, "-c", CONNECT, spark_cluster.remote(session), *map(str, Path(__file__).parents[:2])]
    done = subprocess.run(arguments, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("column 'f3' (a feature) is missing")


# ---- an executor is killed ----


def test_a_killed_executor_loses_and_doubles_no_row(session, model, tmp_path):
    def slowly(batches):
        """In a task: the same batches, after a moment, so that the cluster can be watched at work."""
        __import__("time").sleep(0.3)
        yield from batches

    table = rows(ROWS)
    pa.parquet.write_table(table, tmp_path / "in.parquet", row_group_size=ROWS // PARTS)
    df = session.read.parquet(str(tmp_path / "in.parquet")).repartition(PARTS)
    out = spark.invert(df.mapInArrow(slowly, df.schema), model, "approved", prob=0.7, actions=LIMITS)
    before = spark_cluster.executors(session)
    assert len(before) == 2
    tracker = session.sparkContext.statusTracker()
    victim, done = min(before), 0
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(out.write.parquet, str(tmp_path / "out"))
        while done < PARTS // 2:
            assert not job.done(), f"it ended before an executor could be killed: {job.exception()}"
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = max((s.numCompletedTasks for s in stages if s is not None and s.numTasks == PARTS), default=0)
            time.sleep(0.02)
        os.kill(victim, signal.SIGKILL)
        job.result(timeout=200)
    found = pa.dataset.dataset(tmp_path / "out").to_table().sort_by("id").combine_chunks()
    assert found.column("id").to_pylist() == list(range(ROWS))  # none is lost, none is there twice
    same(found, here(model, table, prob=0.7, actions=LIMITS))
    assert victim not in spark_cluster.executors(session)
