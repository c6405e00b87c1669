"""A batch that is stopped by a signal goes on to the same file, and another question does not go on."""

import json
import re
import signal
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from helpers.commands import ifonly_process

from ifonly import cli

N_ROWS, CHUNK = 8_000, 50  # a second or more, of which the first parts take milliseconds: there is time to stop it
BATCH = [
    *("batch", "credit.npz", "many.parquet", "answers.parquet", "--target", "approved", "--lam", "0.01"),
    *("--freeze", "age", "--bounds", "loans:0:", "--chunk-rows", str(CHUNK), "--json"),
]


@pytest.fixture
def many(place, rng):
    """Many rows, and what an unbroken run makes of them."""
    X = np.column_stack([rng.integers(20, 70, N_ROWS), rng.integers(0, 6, N_ROWS), rng.normal(900, 90, (2, N_ROWS)).T])
    names = ["age", "loans", "income", "duration"]
    pa.parquet.write_table(pa.table({"id": np.arange(N_ROWS), **dict(zip(names, X.T, strict=True))}), "many.parquet")
    with pytest.raises(SystemExit) as done:
        cli.main([*BATCH[:3], "unbroken.parquet", *BATCH[4:]])
    assert done.value.code == 0
    return (place / "unbroken.parquet").read_bytes()


def wait_for_parts(process, place, count):
    """Until a run has written so many parts."""
    manifest = place / "answers.parquet.parts" / "_manifest.json"
    for _ in range(3000):
        assert process.poll() is None, process.stderr.read()
        if manifest.exists() and manifest.read_text().count('"rows"') >= count:
            return
        time.sleep(0.01)
    raise AssertionError("no parts after 30 seconds")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_batch_that_is_stopped_goes_on_to_the_same_file(place, many, capsys, stop):
    process = ifonly_process(BATCH)
    wait_for_parts(process, place, 2)
    process.send_signal(stop)
    out, err = process.communicate(timeout=60)
    assert out == ""
    if stop == signal.SIGINT:
        assert process.returncode == 130
        assert re.fullmatch(r"ifonly: stopped after [\d,]+ rows; the same command goes on where it was\n", err)
    else:
        assert process.returncode == -stop
    assert not (place / "answers.parquet").exists()
    capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(BATCH)
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == N_ROWS
    assert 2 * CHUNK <= found["resumed"] <= N_ROWS  # all, where it was stopped between the last part and the file
    assert (place / "answers.parquet").read_bytes() == many
    assert not (place / "answers.parquet.parts").exists()


def test_another_question_does_not_go_on(place, run, many):
    process = ifonly_process(BATCH)
    wait_for_parts(process, place, 1)
    process.kill()
    process.communicate(timeout=60)
    code, _, err = run([*BATCH, "--lam", "0.02"])
    assert (code, err.count("\n")) == (2, 1)
    assert "it differs in lam: 0.01, now 0.02" in err
    assert run([*BATCH, "--lam", "0.02", "--overwrite"])[0] == 0
