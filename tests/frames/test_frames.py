"""Streams of rows: what is read, what is answered, what a bad row does, and runs that are stopped half-way."""

import gc
import gzip
import itertools
import json
import shutil
import threading
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

import ifonly
from ifonly import Actions, Cost, InputError, Model, frames
from ifonly.frames import inverting, parts, reading

NAMES = ["age", "loans", "income"]
CHUNKING = 1e-12  # between chunks of different sizes: matrix products round differently


@pytest.fixture
def model():
    return Model.binary([0.05, -0.8, 0.002], -1.0, ["refused", "approved"], NAMES)


@pytest.fixture
def people(rng):
    """200 rows with a key in front and a column of no interest behind."""
    X = np.column_stack([rng.integers(20, 70, 200), rng.integers(0, 6, 200), rng.integers(300, 3000, 200)]).astype(float)
    return pa.table({"id": [f"{i:03d}" for i in range(200)], **dict(zip(NAMES, X.T, strict=True)), "note": ["n"] * 200})


def matrix(table, names=NAMES):
    return np.column_stack([table.column(name).to_numpy() for name in names])


def answers(model, batches, target="approved", **options):
    return frames.invert_batches(model, batches, target, **options).read_all()


# ---- reading ----


def write(table, path):
    """A table in whatever format its name asks for."""
    match path.name.split(".", 1)[1]:
        case "parquet":
            pa.parquet.write_table(table, path, row_group_size=64)
        case "csv":
            pa.csv.write_csv(table, path)
        case "csv.gz":
            plain = path.with_name("plain.csv")
            pa.csv.write_csv(table, plain)
            path.write_bytes(gzip.compress(plain.read_bytes()))
        case "tsv":
            pa.csv.write_csv(table, path, pa.csv.WriteOptions(delimiter="\t"))
        case "feather":
            pa.feather.write_feather(table, str(path), chunksize=64)
        case "arrow":
            with pa.ipc.new_stream(str(path), table.schema) as out:
                out.write_table(table, max_chunksize=64)
    return path


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.csv.gz", "t.tsv", "t.feather", "t.arrow"])
def test_every_format_gives_the_same_answers(model, people, tmp_path, name):
    path = write(people, tmp_path / name)
    found = answers(model, frames.open_batches(path))
    assert found.equals(answers(model, people))
    assert frames.count_rows(path) in (200, None)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.feather", "t.arrow"])
def test_only_the_columns_asked_for_are_read_in_that_order(people, tmp_path, name):
    reader = frames.open_batches(write(people, tmp_path / name), ["income", "id"], batch_rows=50)
    assert [n for n in reader.schema.names if n != reading.BAD_LINE] == ["income", "id"]
    batches = list(reader)
    assert max(len(batch) for batch in batches) <= 64
    assert [i for batch in batches for i in batch.column("id").to_pylist()] == people.column("id").to_pylist()


def test_a_folder_is_one_table_with_its_partitions_as_columns(model, people, tmp_path):
    for day, part in (("1", people.slice(0, 120)), ("2", people.slice(120))):
        (tmp_path / f"day={day}").mkdir()
        write(part, tmp_path / f"day={day}" / "part.parquet")
    (tmp_path / "_SUCCESS").touch()
    reader = frames.open_batches(tmp_path, ["day", "id", *NAMES])
    found = answers(model, reader)
    assert found.column("day").to_pylist() == ["1"] * 120 + ["2"] * 80
    assert found.drop_columns("day").equals(answers(model, people, keys=["id"]))
    assert frames.count_rows(tmp_path) == 200


def test_of_a_data_set_only_keys_and_features_are_read(model, people, tmp_path):
    data = pa.dataset.dataset(write(people, tmp_path / "a.parquet"))
    assert inverting._stream(data, model, ["id"])[0].names == ["id", *NAMES]
    assert answers(model, data, keys=["id"]).equals(answers(model, people, keys=["id"]))
    with pytest.raises(InputError, match=r"column 'number' \(a key\) is missing"):
        answers(model, data, keys=["number"])


def test_a_folder_whose_files_disagree_is_refused(people, tmp_path):
    write(people, tmp_path / "a.parquet")
    write(people.set_column(1, "age", people.column("age").cast(pa.int64())), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet: column 'age' is int64, but double in the data set's first file"):
        frames.open_batches(tmp_path).read_all()


WRONG_FILES = {
    "t.xlsx": (b"", r"a table is \.parquet, .* or a folder of those; got '\.xlsx'"),
    "t.parquet": (b"PAR1 and no more", r"t\.parquet cannot be read: "),
    "t.arrow": (b"no arrow", r"t\.arrow cannot be read: "),
    "t.csv": (b"", r"t\.csv is empty: expected a line with the names of its columns"),
    "u.csv": (b"a,b\n1,2\n", r"u\.csv has no column 'income'; its columns are a, b"),
    "v.csv": (b"income,income\n1,2\n", r"v\.csv has the column 'income' more than once"),
    "w.csv": (b"income\n\xff\xfe\n", r"w\.csv is in another encoding than UTF-8"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_wrong_file_is_refused_by_name(tmp_path, name):
    content, message = WRONG_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        frames.open_batches(tmp_path / name, ["income"]).read_all()
    with pytest.raises(InputError, match=r"nowhere\.csv does not exist"):
        frames.open_batches(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("text", ["id,age,loans,income\n", "id,age,loans,income", "id,age,loans,income\n\n"])
def test_a_file_with_a_header_only_has_no_rows(model, tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert len(answers(model, frames.open_batches(tmp_path / "t.csv"))) == 0


BAD_LINES = {
    "first": ["1,2", "a,1", "b,2"],
    "middle": ["a,1", "1,2,3", "b,2"],
    "last": ["a,1", "b,2", "1,2,3"],
    "all": ["1", "2,3,4", "5"],
    "runs": ["a,1", "1,2,3", "1", "b,2", "2,3,4", "c,3", "1"],
    "many": list(itertools.chain.from_iterable((f"k{i},{i}", f"{i}") for i in range(200))),
}


@pytest.mark.parametrize("block", [64, 2**20])
@pytest.mark.parametrize("where", BAD_LINES)
def test_a_line_of_the_wrong_length_keeps_its_place(tmp_path, monkeypatch, where, block):
    monkeypatch.setattr(reading, "READ_BYTES", block)
    lines = [line if line != "1,2" else "only" for line in BAD_LINES[where]]
    (tmp_path / "t.csv").write_text("\n".join(["id,n", *lines, ""]))
    table = frames.open_batches(tmp_path / "t.csv").read_all()
    assert table.column("id").to_pylist() == [line.split(",")[0] if line.count(",") == 1 else None for line in lines]
    bad = [None if line.count(",") == 1 else line.count(",") + 1 for line in lines]
    expected = [None if n is None else f"the line has {n} cell{'s' * (n != 1)}, the header 2" for n in bad]
    assert table.column(reading.BAD_LINE).to_pylist() == expected


def test_a_csv_with_semicolons_and_a_mark_at_its_start(model, tmp_path):
    (tmp_path / "t.csv").write_bytes("\ufeffage;loans;income\n30;1;900\n".encode())
    assert answers(model, frames.open_batches(tmp_path / "t.csv")).column("status").to_pylist() == ["EXACT"]


# ---- answers ----


@pytest.mark.parametrize("question", [{"prob": 0.8}, {"lam": 0.1}, {"prob": 0.7, "actions": Actions(frozen=["age"])}])
def test_a_stream_gives_what_invert_gives(model, people, question):
    found = answers(model, people, columns="all", **question)
    cfs = ifonly.invert(model, matrix(people), "approved", **question, backend="cpu")  # the loop that a stream takes
    np.testing.assert_array_equal(matrix(found, [f"new_{name}" for name in NAMES]), cfs.x)
    for name in ("distance", "cost", "gap"):
        np.testing.assert_array_equal(found.column(name).to_numpy(), getattr(cfs, name))
    np.testing.assert_array_equal(found.column("probability").to_numpy(), cfs.proba[:, 1])
    assert found.column("target").to_pylist() == ["approved"] * 200
    assert found.column("id").equals(people.column("id"))
    assert found.column("note").equals(people.column("note"))


def test_how_the_rows_are_batched_makes_no_difference(model, people, rng):
    whole = answers(model, people, chunk_rows=64)
    cuts = np.sort(rng.integers(0, 201, 30))
    batches = [b for a, z in itertools.pairwise([0, *cuts, 200]) for b in people.slice(a, z - a).to_batches()]
    assert answers(model, iter(batches), chunk_rows=64).equals(whole)
    other = answers(model, people, chunk_rows=1)
    np.testing.assert_allclose(other.column("distance").to_numpy(), whole.column("distance").to_numpy(), rtol=CHUNKING)
    assert other.column("id").equals(whole.column("id"))


@pytest.mark.parametrize("threads", [1, 4])
def test_rows_are_taken_as_answers_are_read(model, people, threads):
    taken = []

    def source():
        for i in range(20):
            taken.append(i)
            yield people.slice(10 * i, 10).combine_chunks().to_batches()[0]

    reader = frames.invert_batches(model, source(), "approved", chunk_rows=20, threads=threads)
    assert len(reader.read_next_batch()) == 20
    ahead = 0 if threads == 1 else threads
    assert len(taken) <= 2 * (1 + ahead) + 1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_make_no_difference(model, people, threads):
    question = {"prob": 0.7, "actions": Actions(frozen=["age"], bounds={"loans": (0, 4)}), "chunk_rows": 16}
    assert answers(model, people, threads=threads, **question).equals(answers(model, people, threads=1, **question))


SLOW = {
    "a linear rule": Actions(linear=[({"loans": 1.0, "age": 0.1}, "<=", 9.0)]),
    "lam": Actions(frozen=["age"]),
}


@pytest.mark.parametrize("what", [*SLOW, "none", "bounds"])
def test_chunks_are_smaller_where_rows_take_long(model, people, what):
    asked = {"actions": SLOW.get(what)} | ({"lam": 0.1} if what == "lam" else {"prob": 0.6})
    asked |= {"actions": Actions(bounds=(0, None))} if what == "bounds" else {}
    inverter = inverting.Inverter(ifonly.ask(model, "approved", **asked), people.schema)
    assert inverter.chunk_rows(None) == (256 if what in SLOW else 16384)
    assert inverter.chunk_rows(7) == 7
    whole = ifonly.ask(model, "approved", actions=Actions(integer=["loans"]))
    assert inverting.Inverter(whole, people.schema).chunk_rows(None) == 256


def test_a_run_that_is_stopped_does_not_wait_for_whole_parts(model, source, tmp_path, monkeypatch):
    """Three threads make parts of 8 chunks; the first part fails, and the others end with the chunk that they are at."""
    solved, first = [], threading.Event()
    solve = inverting.Inverter.__call__

    def slowly(self, table):
        if not first.is_set():
            first.set()
            raise StopError
        time.sleep(0.2)
        solved.append(len(table))
        return solve(self, table)

    monkeypatch.setattr(inverting.Inverter, "__call__", slowly)
    options = {**OPTIONS, "chunk_rows": 4, "part_chunks": 8, "threads": 3}
    with pytest.raises(StopError):
        frames.write_parts(model, source, tmp_path / "out", "approved", **options)
    assert len(solved) <= 6
    monkeypatch.undo()
    assert frames.write_parts(model, source, tmp_path / "out", "approved", **options).rows == 200


def test_an_error_on_a_thread_reaches_the_reader_and_threads_end(model, people, monkeypatch):
    monkeypatch.setattr(inverting.Inverter, "__call__", lambda self, table: 1 / 0)
    reader = frames.invert_batches(model, people, "approved", chunk_rows=16, threads=2)
    with pytest.raises(ZeroDivisionError):
        reader.read_all()
    monkeypatch.undo()
    before = threading.active_count()
    reader = frames.invert_batches(model, people, "approved", chunk_rows=16, threads=2)
    reader.read_next_batch()
    assert threading.active_count() > before
    del reader  # half-way
    gc.collect()
    assert threading.active_count() == before


def test_features_that_stay_are_null_and_frozen_ones_have_no_column(model, people):
    actions = Actions(frozen=["age"], bounds={"loans": (0, None)})
    found = answers(model, people, prob=0.6, actions=actions)
    assert "new_age" not in found.schema.names
    X = matrix(people)
    x = ifonly.invert(model, X, "approved", prob=0.6, actions=actions).x
    for d, name in ((1, "new_loans"), (2, "new_income")):
        expected = [None if stays else value for stays, value in zip(x[:, d] == X[:, d], x[:, d].tolist(), strict=True)]
        assert found.column(name).to_pylist() == expected
        assert 0 < found.column(name).null_count < 200


def test_a_bad_row_is_invalid_and_the_others_are_as_they_were(model, people):
    X = matrix(people)
    X[3, 1], X[5, 2], X[7, 0] = np.nan, np.inf, -5.0
    missing = {"age": np.arange(200) == 9}
    table = pa.table(
        {"id": people.column("id"), **{n: pa.array(v, mask=missing.get(n)) for n, v in zip(NAMES, X.T, strict=True)}}
    )
    actions = Actions(frozen=["age"], bounds={"age": (0, None)})
    found = answers(model, table, prob=0.6, actions=actions)
    reasons = {i: reason for i, reason in enumerate(found.column("reason").to_pylist()) if reason}
    assert reasons == {
        3: "loans is nan",
        5: "income is inf",
        7: "age is frozen at -5, outside its bounds [0, inf]",
        9: "age is missing",
    }
    assert [i for i, status in enumerate(found.column("status").to_pylist()) if status == "INVALID"] == [3, 5, 7, 9]
    invalid = found.take([3, 5, 7, 9]).drop_columns(["id", "status", "reason"])
    assert all(column.null_count == 4 for column in invalid.columns)
    good = np.setdiff1d(np.arange(200), list(reasons))
    alone = answers(model, people.take(good), prob=0.6, actions=actions)
    for name in ("distance", "new_income"):
        expected, got = (t.column(name).to_numpy(zero_copy_only=False) for t in (alone, found.take(good)))
        np.testing.assert_allclose(got, expected, rtol=CHUNKING)


def test_a_batch_of_bad_rows_only(model):
    table = pa.table({"id": [1, 2], "age": pa.nulls(2), "loans": [1.0, 2.0], "income": [1.0, None]})
    found = answers(model, table)
    assert found.column("reason").to_pylist() == ["age is missing"] * 2
    assert found.column("new_loans").null_count == 2
    assert found.schema == answers(model, table.slice(0, 0)).schema


def test_a_bad_cell_of_a_csv_is_one_bad_row(model, tmp_path):
    (tmp_path / "t.csv").write_text("id,age,loans,income\n007,31,2,900\n008,x,1,1\n009,,1,1\n010, 40 ,NA,1\n011,1e2,0,-3.5\n")
    found = answers(model, frames.open_batches(tmp_path / "t.csv"), columns="all")
    assert found.column("id").to_pylist() == ["007", "008", "009", "010", "011"]
    assert found.column("reason").to_pylist() == [None, "age is 'x', no number", "age is missing", "loans is missing", None]
    expected = ifonly.invert(model, [[31.0, 2.0, 900.0], [100.0, 0.0, -3.5]], "approved").x
    np.testing.assert_array_equal(matrix(found.take([0, 4]), [f"new_{name}" for name in NAMES]), expected)


KINDS = {
    "dictionary": lambda v: pa.array(v, pa.float64()).dictionary_encode(),
    "decimal": lambda v: pa.array([Decimal(int(x)) for x in v], pa.decimal128(9, 2)),
    "long decimal": lambda v: pa.array([Decimal(int(x)) for x in v], pa.decimal256(60, 2)),
    "dictionary of decimals": lambda v: pa.array([Decimal(int(x)) for x in v], pa.decimal128(9, 2)).dictionary_encode(),
    "int8": lambda v: pa.array(v.astype(np.int8)),
    "uint64": lambda v: pa.array(v.astype(np.uint64)),
    "float32": lambda v: pa.array(v.astype(np.float32)),
    "chunked": lambda v: pa.chunked_array([v[:7], v[7:]]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind_are_read(model, people, kind):
    other = people.set_column(1, "age", KINDS[kind](people.column("age").to_numpy()))
    assert answers(model, other).equals(answers(model, people))


def test_booleans_are_numbers(rng):
    flags = rng.random(20) < 0.5
    model = Model.binary([1.0, -1.0], 0.1, ["no", "yes"], ["flag", "x"])
    as_flags = pa.table({"flag": pa.array(flags, mask=np.arange(20) == 4), "x": np.ones(20)})
    found = answers(model, as_flags, "yes")
    assert found.column("reason").to_pylist()[4] == "flag is missing"
    expected = ifonly.invert(model, np.column_stack([flags, np.ones(20)]), "yes").distance
    np.testing.assert_allclose(np.delete(found.column("distance").to_numpy(zero_copy_only=False), 4), np.delete(expected, 4))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array(["1"] * 200), "string"),
        (pa.array(["1"] * 200).dictionary_encode(), "dictionary<values=string, indices=int32, ordered=0>"),
        (pa.array([0] * 200, pa.timestamp("s")), r"timestamp\[s\]"),
        (pa.array([[1.0]] * 200), "list<item: double>"),
    ],
)
def test_a_column_that_is_no_number_is_refused_by_name(model, people, values, kind):
    with pytest.raises(InputError, match=f"column 'income' must be numbers; it is {kind}"):
        frames.invert_batches(model, people.set_column(3, "income", values), "approved")


WRONG = {
    "class": ({"target": "perhaps"}, "unknown class 'perhaps'"),
    "all classes": ({"target": "all"}, 'target "all" gives several answers a row'),
    "many targets": ({"target": ["approved", "refused"]}, "target must be one label for all rows"),
    "prob": ({"prob": 2.0}, "prob must be strictly between 0 and 1; got 2.0"),
    "both": ({"prob": 0.5, "lam": 1.0}, "give one of lam and prob"),
    "feature": ({"actions": Actions(frozen=["height"])}, "unknown feature 'height'"),
    "columns": ({"columns": "few"}, 'columns must be "changed" or "all"; got \'few\''),
    "key": ({"keys": ["number"]}, r"column 'number' \(a key\) is missing; the columns are id, age"),
    "chunk": ({"chunk_rows": 0}, "chunk_rows must be 1 or more; got 0"),
    "threads": ({"threads": 0}, "threads must be 1 or more; got 0"),
    "option": ({"colour": 1}, "colour"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_question_is_refused_before_a_row_is_read(model, people, what):
    options, message = WRONG[what]
    reader = people.to_reader()
    with pytest.raises((InputError, TypeError), match=message):
        frames.invert_batches(model, reader, **{"target": "approved", **options})
    assert len(reader.read_all()) == 200


def test_columns_that_are_missing_or_in_the_way_are_refused_by_name(model, people):
    with pytest.raises(InputError, match=r"column 'loans' \(a feature\) is missing; the columns are id, age, income, note"):
        answers(model, people.drop_columns("loans"))
    with pytest.raises(InputError, match="column 'status' is handed through as a key"):
        answers(model, people.rename_columns(["status", *NAMES, "note"]))
    assert "status" in answers(model, people.rename_columns(["status", *NAMES, "note"]), keys=[]).schema.names
    with pytest.raises(InputError, match="batches must be Arrow record batches or tables, one at least; got none"):
        answers(model, iter([]))
    with pytest.raises(InputError, match="batches must be Arrow record batches or tables, one at least; got dict"):
        answers(model, iter([{}]))
    with pytest.raises(InputError, match="all batches must have the columns of the first"):
        answers(model, iter([people, people.drop_columns("id")]))


def test_a_model_without_names_takes_what_is_no_key_by_its_place(people):
    model = Model.binary([0.05, -0.8, 0.002], -1.0, ["refused", "approved"])
    found = answers(model, people, keys=["id", "note"])
    assert found.schema.names[-3:] == ["new_age", "new_loans", "new_income"]
    with pytest.raises(InputError, match=r"the model's 3 features have no names, .* there are 5: id, age"):
        answers(model, people)


def test_a_model_with_scores_only_has_no_probability(people):
    model = Model.binary([0.05, -0.8, 0.002], -1.0, ["refused", "approved"], NAMES, hard=True)
    found = answers(model, people, margin=0.5)
    assert found.column("probability").null_count == 200
    assert set(found.column("status").to_pylist()) == {"EXACT"}


@pytest.mark.parametrize(
    ("classes", "kind"), [([0, 1], "int64"), ([True, False], "bool"), ([0, "b"], "string"), ([0.5, 1.0], "double")]
)
def test_targets_have_the_type_of_the_classes(people, classes, kind):
    model = Model.binary([0.05, -0.8, 0.002], -1.0, classes, NAMES)
    assert str(answers(model, people, None).column("target").type) == kind


# ---- pipelines with columns of all kinds ----


@pytest.fixture(scope="module")
def mixed():
    """A pipeline of numbers and categories, and its table: 120 rows."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "amount": rng.integers(1, 100, 120) * 100.0,
            "job": rng.choice(["clerk", "cook", "smith"], 120),
            "rooms": rng.integers(1, 4, 120),
            "unused": np.arange(120),
        }
    )
    y = np.where(frame["amount"] / 5000 + (frame["job"] == "cook") + rng.normal(size=120) > 1.5, "refused", "approved")
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer((numbers, ["amount"]), (OneHotEncoder(), ["job", "rooms"]))
    return make_pipeline(columns, LogisticRegression()).fit(frame, y), frame


def test_a_pipeline_takes_its_columns_from_any_file(mixed, tmp_path):
    pipeline, frame = mixed
    table = pa.Table.from_pandas(frame).append_column("id", pa.array([f"{i:03d}" for i in range(120)]))
    table = table.set_column(1, "job", table.column("job").dictionary_encode())
    question = {"prob": 0.7, "columns": "all", "keys": ["id"]}
    found = answers(pipeline, table, **question)
    assert [str(found.column(f"new_{name}").type) for name in ("amount", "job", "rooms")] == ["double", "string", "int64"]
    x = frame.assign(**{name: found.column(f"new_{name}").to_pandas() for name in ("amount", "job", "rooms")})
    assert (pipeline.predict_proba(x)[:, 0] >= 0.7).all()
    plain = table.set_column(1, "job", table.column("job").cast(pa.string()))
    pa.csv.write_csv(plain, tmp_path / "t.csv")
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert answers(pipeline, frames.open_batches(tmp_path / name), **question).equals(found)


def test_only_what_changes_is_written_in_the_users_terms(mixed):
    pipeline, frame = mixed
    found = answers(pipeline, pa.Table.from_pandas(frame), prob=0.7, actions=Actions(frozen=["amount"]))
    assert "new_amount" not in found.schema.names
    x = ifonly.invert(pipeline, frame, "approved", prob=0.7, actions=Actions(frozen=["amount"])).x
    for name in ("job", "rooms"):
        expected = [None if new == old else new for old, new in zip(frame[name], x[name], strict=True)]
        assert found.column(f"new_{name}").to_pylist() == expected


def test_a_category_nobody_knows_is_a_bad_row_and_a_missing_number_is_filled_in(mixed):
    pipeline, frame = mixed
    table = pa.Table.from_pandas(frame.head(4))
    table = table.set_column(1, "job", pa.array(["cook", "poet", None, "smith"]))
    table = table.set_column(0, "amount", pa.array([None, 1.0, 2.0, 3.0]))
    found = answers(pipeline, table, prob=0.7)
    assert found.column("status").to_pylist() == ["EXACT", "INVALID", "INVALID", "EXACT"]
    known = "it must be one of 'clerk', 'cook', 'smith'"
    assert found.column("reason").to_pylist() == [None, f"job is 'poet'; {known}", f"job is None; {known}", None]
    with pytest.raises(InputError, match=r"column 'job' must be one of \['clerk', 'cook', 'smith'\]; it is timestamp"):
        answers(pipeline, table.set_column(1, "job", pa.array([0] * 4, pa.timestamp("s"))))


# ---- from file to file, stopped half-way ----


@pytest.fixture
def source(people, tmp_path):
    return write(people, tmp_path / "people.parquet")


OPTIONS = {"prob": 0.7, "actions": Actions(frozen=["age"]), "chunk_rows": 16, "part_chunks": 2}  # seven parts


class StopError(Exception):
    pass


def content(path):
    """The bytes of a file, or of every file of a folder, by name."""
    return {p.name: p.read_bytes() for p in ([path] if path.is_file() else path.iterdir())}


def stop_after(rows):
    def on_rows(done):
        if done >= rows:
            raise StopError

    return on_rows


READ = {
    "out.parquet": lambda path: pa.parquet.read_table(path),
    "out.csv": lambda path: pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(column_types={"id": pa.string()})),
    "out.arrow": lambda path: pa.ipc.open_file(str(path)).read_all(),
    "out": lambda path: pa.dataset.dataset(path).to_table(),
}


@pytest.mark.parametrize("name", READ)
def test_a_file_has_what_the_stream_has(model, people, source, tmp_path, name):
    written = frames.write_parts(model, source, tmp_path / name, "approved", **OPTIONS)
    question = {key: value for key, value in OPTIONS.items() if key != "part_chunks"}
    expected = answers(model, people, **question)
    found = READ[name](tmp_path / name)
    if name == "out.csv":  # which has no types: an empty column is one of nulls
        found = found.set_column(found.schema.get_field_index("reason"), "reason", pa.nulls(200, pa.string()))
    assert found.equals(expected)
    assert (written.rows, written.resumed, written.statuses, written.bad) == (200, 0, {"EXACT": 200}, ())
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "people.parquet"])


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("rows", [0, 16, 32, 112, 200])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(model, source, tmp_path, name, rows):
    (tmp_path / "whole").mkdir()
    whole = tmp_path / "whole" / name
    frames.write_parts(model, source, whole, "approved", **OPTIONS)
    out = tmp_path / name
    for _ in range(2):  # and stopped at the same place again
        with pytest.raises(StopError):
            frames.write_parts(model, source, out, "approved", on_rows=stop_after(rows), **OPTIONS)
        assert name == "out" or not out.exists()
    written = frames.write_parts(model, source, out, "approved", **OPTIONS)
    assert written.resumed == min(200, -(-rows // 32) * 32)  # rows are reported when they are written
    assert content(out) == content(whole)


def test_what_a_killed_run_leaves_behind_is_no_part(model, source, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(StopError):
        frames.write_parts(model, source, out, "approved", on_rows=stop_after(100), **OPTIONS)
    (out / ".part-000004.parquet.partial").write_bytes(b"half")
    (out / "part-000005.parquet").write_bytes(b"renamed, but not listed")
    assert frames.write_parts(model, source, out, "approved", **OPTIONS).rows == 200
    assert pa.dataset.dataset(out).count_rows() == 200


OTHERS = {
    "prob": {"prob": 0.8},
    "actions": {"actions": Actions(frozen=["loans"])},
    "target": {"target": "refused"},
    "keys": {"keys": ["id"]},
    "columns": {"columns": "all"},
    "chunk_rows": {"chunk_rows": 32},
    "cost": {"cost": Cost("raw", l1=0.1)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_question_does_not_go_on(model, source, tmp_path, what):
    out = tmp_path / "out.parquet"
    with pytest.raises(StopError):
        frames.write_parts(model, source, out, "approved", on_rows=stop_after(100), **OPTIONS)
    other = {"target": "approved", **OPTIONS, **OTHERS[what]}
    with pytest.raises(
        InputError, match=rf"out\.parquet\.parts was begun with another question or input: it differs in {what}"
    ):
        frames.write_parts(model, source, out, **other)
    assert frames.write_parts(model, source, out, **other, overwrite=True).resumed == 0


def test_another_model_or_input_does_not_go_on(model, people, source, tmp_path):
    def run(model, **more):
        return frames.write_parts(model, source, tmp_path / "out.parquet", "approved", **OPTIONS, **more)

    with pytest.raises(StopError):
        run(model, on_rows=stop_after(100))
    with pytest.raises(InputError, match="it differs in the model, which changed since"):
        run(Model.binary([0.05, -0.8, 0.003], -1.0, ["refused", "approved"], NAMES))
    write(people.slice(0, 150), source)
    with pytest.raises(InputError, match="it differs in the input, which changed since"):
        run(model)


def test_nothing_that_is_there_is_overwritten_unasked(model, source, tmp_path):
    out = tmp_path / "out.parquet"
    out.write_bytes(b"precious")
    with pytest.raises(InputError, match=r"out\.parquet is there already; choose another name, or overwrite"):
        frames.write_parts(model, source, out, "approved")
    frames.write_parts(model, source, out, "approved", overwrite=True)
    assert pa.parquet.read_metadata(out).num_rows == 200
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "precious").touch()
    for overwrite in (False, True):
        with pytest.raises(InputError, match="mine is there already"):
            frames.write_parts(model, source, folder, "approved", overwrite=overwrite)
    assert (folder / "precious").exists()
    with pytest.raises(InputError, match="out is the input itself"):
        frames.write_parts(model, source, source, "approved", overwrite=True)
    with pytest.raises(InputError, match=r"out must end in \.parquet, \.csv, \.arrow"):
        frames.write_parts(model, source, tmp_path / "out.xlsx", "approved")


def test_a_folder_that_is_complete_is_left_alone(model, source, tmp_path):
    out = tmp_path / "out"
    frames.write_parts(model, source, out, "approved", **OPTIONS)
    times = {p.name: p.stat().st_mtime_ns for p in out.iterdir()}
    written = frames.write_parts(model, source, out, "approved", **OPTIONS)
    assert (written.rows, written.resumed) == (200, 200)
    assert {p.name: p.stat().st_mtime_ns for p in out.iterdir()} == times


FLIPS = 4  # in each file: any bit of it may be wrong


@pytest.mark.seconds
@pytest.mark.parametrize("name", READ)
def test_a_flipped_bit_is_made_good_or_refused(model, source, tmp_path, rng, name):
    """Whatever a disk does to the files of a stopped run: the same bytes come out, or a refusal that says why."""

    def run(**more):
        return frames.write_parts(model, source, out, "approved", **OPTIONS, **more)

    out = tmp_path / name
    run()
    whole = content(out)
    shutil.rmtree(out) if out.is_dir() else out.unlink()
    with pytest.raises(StopError):
        run(on_rows=stop_after(100))
    work = out if name == "out" else tmp_path / f"{name}.parts"
    stopped = content(work)
    assert {"part-000003.parquet", "_manifest.json"} <= set(stopped)  # four are listed; others may be made already
    for file, i in itertools.product(stopped, range(FLIPS)):
        shutil.rmtree(work, ignore_errors=True)  # not there after a run that ended
        work.mkdir()
        for other, data in stopped.items():
            (work / other).write_bytes(data)
        changed = bytearray(stopped[file])
        changed[-1 if i == 0 else rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
        (work / file).write_bytes(changed)
        if file == "_manifest.json":
            with pytest.raises(InputError, match=r"_manifest\.json is damaged, or of another version.*with overwrite"):
                run()
            assert content(work) == {**stopped, file: bytes(changed)}  # a refusal changes nothing
            continue
        assert run().resumed == min(32 * int(file[5:11]), 128)  # the parts before it
        assert content(out) == whole
        if name != "out":
            out.unlink()


def test_a_part_that_is_gone_or_short_is_made_again(model, source, tmp_path):
    out = tmp_path / "out.csv"
    frames.write_parts(model, source, out, "approved", **OPTIONS)
    whole = out.read_bytes()
    out.unlink()
    for damage in (Path.unlink, lambda part: part.write_bytes(b""), lambda part: part.write_bytes(part.read_bytes() + b"more")):
        with pytest.raises(StopError):
            frames.write_parts(model, source, out, "approved", on_rows=stop_after(200), **OPTIONS)
        damage(tmp_path / "out.csv.parts" / "part-000006.parquet")
        assert frames.write_parts(model, source, out, "approved", **OPTIONS).resumed == 192
        assert out.read_bytes() == whole
        out.unlink()


def test_a_complete_folder_that_was_changed_is_refused(model, source, tmp_path):
    """It is the user's: nothing in it is made again unasked."""
    out = tmp_path / "out"
    frames.write_parts(model, source, out, "approved", **OPTIONS)
    whole = content(out)
    (out / "part-000001.parquet").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"out was complete, and part-000001\.parquet is no longer what was written"):
        frames.write_parts(model, source, out, "approved", **OPTIONS)
    assert (out / "part-000001.parquet").read_bytes() == b"mine"
    assert frames.write_parts(model, source, out, "approved", **OPTIONS, overwrite=True).resumed == 0
    assert content(out) == whole


def test_bad_rows_are_counted_and_the_first_are_kept(model, people, tmp_path):
    ages = [None if i % 5 == 0 else v for i, v in enumerate(people.column("age").to_pylist())]
    source = write(people.set_column(1, "age", pa.array(ages)), tmp_path / "people.parquet")
    written = frames.write_parts(model, source, tmp_path / "out.parquet", "approved", chunk_rows=16, part_chunks=2)
    assert written.statuses == {"EXACT": 160, "INVALID": 40}
    assert [bad.row for bad in written.bad] == list(range(0, 100, 5))
    assert {bad.reason for bad in written.bad} == {"age is missing"}


@pytest.mark.parametrize("name", READ)
def test_no_rows_in_no_rows_out(model, people, tmp_path, name):
    source = write(people.slice(0, 0), tmp_path / "people.parquet")
    assert frames.write_parts(model, source, tmp_path / name, "approved").rows == 0
    assert READ[name](tmp_path / name).num_rows == 0


def test_no_rows_and_a_run_that_was_stopped_at_the_end(model, people, tmp_path, monkeypatch):
    source = write(people.slice(0, 0), tmp_path / "people.parquet")
    monkeypatch.setattr(parts.Manifest, "finish", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        frames.write_parts(model, source, tmp_path / "out", "approved")
    monkeypatch.undo()
    frames.write_parts(model, source, tmp_path / "out", "approved")
    assert [path.name for path in (tmp_path / "out").glob("part*")] == ["part-000000.parquet"]


def test_the_manifest_says_what_was_asked(model, source, tmp_path):
    frames.write_parts(model, source, tmp_path / "out", "approved", **OPTIONS)
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    assert manifest["complete"] is True
    assert manifest["question"]["target"] == "approved"
    assert manifest["question"]["actions"]["frozen"] == ["age"]
    assert [part["rows"] for part in manifest["parts"]] == [32] * 6 + [8]


# ---- parts as time passes ----


def test_a_part_has_as_many_chunks_as_take_a_few_seconds():
    pace = parts.Pace(4, slow=True)
    assert pace.chunks == 1
    pace.took(0.1, 1)
    assert pace.chunks == 4
    pace.took(4.0, 4)
    assert pace.chunks == 2
    pace.took(30.0, 1)
    assert pace.chunks == 1
    assert parts.Pace(4, slow=False).chunks == 4


def test_rows_are_kept_as_time_passes_and_the_file_does_not_tell(tmp_path, monkeypatch, rng):
    """Chunks that take long make small parts, the same numbers, and the same file to the last byte."""
    model = ifonly.Model.binary([1.0, -2.0], 0.0, ["refused", "approved"], ["income", "debt"])
    table = pa.table({"income": rng.normal(size=300), "debt": rng.normal(size=300)})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    options = {"lam": 0.1, "actions": Actions(bounds={"debt": (0, None)}), "chunk_rows": 10, "part_chunks": 8, "threads": 1}
    frames.write_parts(model, tmp_path / "in.parquet", tmp_path / "quick.parquet", "approved", **options)
    monkeypatch.setattr(parts, "PART_SECONDS", 0.0)  # every chunk takes too long
    seen = []
    slow = tmp_path / "slow.parquet"
    frames.write_parts(model, tmp_path / "in.parquet", slow, "approved", **options, on_rows=seen.append)
    assert seen == list(range(0, 301, 10))
    assert slow.read_bytes() == (tmp_path / "quick.parquet").read_bytes()


def test_a_csv_has_quotation_marks_only_where_they_are_needed(model, tmp_path):
    names = ",".join(model.feature_names)
    cells = ",".join("1" for _ in model.feature_names)
    (tmp_path / "in.csv").write_text(f'id,who,"a, b",{names}\n805,Zoë,x,{cells}\n007,"Li, Bo",y,{cells}\n')
    frames.write_parts(model, tmp_path / "in.csv", tmp_path / "out.csv", chunk_rows=1, part_chunks=1, threads=1)
    head, first, second, *_ = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert head.startswith('id,who,"a, b",target,')
    assert first.startswith("805,Zoë,x,")
    assert second.startswith('007,"Li, Bo",y,')
    back = frames.open_batches(tmp_path / "out.csv").read_all()
    assert back.column("id").to_pylist() == ["805", "007"]
    assert back.column("who").to_pylist() == ["Zoë", "Li, Bo"]


@pytest.mark.parametrize("rows", [1, 60_000])
def test_a_csv_in_another_encoding_is_said_to_be_one(model, tmp_path, rows):
    cells = ",".join("1" for _ in model.feature_names)
    text = f"id,{','.join(model.feature_names)}\n" + f"Zoe,{cells}\n" * (rows - 1) + f"Zoë,{cells}\n"
    (tmp_path / "in.csv").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"in\.csv is in another encoding than UTF-8.*: save it as UTF-8"):
        frames.write_parts(model, tmp_path / "in.csv", tmp_path / "out.csv", overwrite=True)
