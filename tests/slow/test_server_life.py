"""A server through its life: many at once, more than it can take, too slow a question, another model, and its end."""

import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from helpers.serving import make_credit, make_pixels, make_toy, post, serving, toy_model

import ifonly

ROW = [0.5, 2.0, 31.0]
SAME = 1e-12  # relative: a row among others differs by rounding from the same row alone


class Client(threading.Thread):
    """Asks again and again on one connection; keeps what came of each question that was sent."""

    def __init__(self, server, questions, stop):
        super().__init__(daemon=True)
        self.server, self.questions, self.stop = server, questions, stop
        self.replies, self.lost, self.refused = [], 0, False

    def run(self):
        sock = self._connected()
        i = 0
        while not self.stop.is_set() and sock is not None:
            which = i % len(self.questions)
            i += 1
            try:
                sock.sendall(self.questions[which])
            except OSError:
                sock = self._connected()  # closed before anything was sent
                continue
            reply = self._read(sock)
            if reply is None:
                self.lost += 1
                return
            head, body = reply
            self.replies.append((which, int(head.split()[1]), body))
            if b"connection: close" in head.lower():
                sock.close()
                sock = self._connected()
        if sock is not None:
            sock.close()

    def _connected(self):
        try:
            return self.server.connect()
        except OSError:
            self.refused = True
            return None

    @staticmethod
    def _read(sock):
        data = b""
        while b"\r\n\r\n" not in data:
            part = sock.recv(65536)
            if not part:
                return None
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(body) < length:
            part = sock.recv(65536)
            if not part:
                return None
            body += part
        return head, body


def keep_alive(question):
    return post(json.dumps(question).encode()).replace(b"Connection: close\r\n", b"")


def busy(server, questions, seconds, clients=16, then=lambda: None):
    """Many clients at once; ``then`` happens in the middle of it."""
    stop = threading.Event()
    threads = [Client(server, questions, stop) for _ in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 2)
    then()
    time.sleep(seconds / 2)
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return threads


# ---- many at once ----


def test_answers_that_were_solved_together_are_those_of_each_row(tmp_path):
    model_file, _ = make_pixels(tmp_path, n_features=128)
    model = ifonly.load(model_file)
    rng = np.random.default_rng(5)
    X, targets, probs = rng.random((40, 128)), rng.integers(0, 10, 40).tolist(), rng.uniform(0.3, 0.99, 40).tolist()
    questions = [keep_alive({"row": x.tolist(), "target": k, "prob": p}) for x, k, p in zip(X, targets, probs, strict=True)]
    with serving(tmp_path, model_file) as server:
        threads = busy(server, questions, 2.0)
        batches = server.metric("ifonly_batch_rows")
    alone = [ifonly.invert(model, x, k, prob=p) for x, k, p in zip(X, targets, probs, strict=True)]
    assert batches["ifonly_batch_rows_sum"] > 1.5 * batches["ifonly_batch_rows_count"]  # they were gathered
    found = [reply for thread in threads for reply in thread.replies]
    assert len(found) > 200
    for which, status, body in found:
        assert status == 200
        (answer,) = json.loads(body)["answers"]
        x = np.array(answer["x"])
        np.testing.assert_allclose(x, alone[which].x, rtol=SAME, atol=SAME)
        assert model.predict_proba(x)[targets[which]] >= probs[which]


def test_a_row_that_overflows_does_not_spoil_its_neighbours(tmp_path):
    model_file, _ = make_pixels(tmp_path, n_features=16)
    good, bad = keep_alive({"row": [0.5] * 16, "target": 3}), keep_alive({"row": [1.7e308] * 16, "target": 3})
    with serving(tmp_path, model_file) as server:
        threads = busy(server, [good, bad], 1.0, clients=8)
    statuses = {(which, status) for thread in threads for which, status, _ in thread.replies}
    assert statuses == {(0, 200), (1, 422)}


# ---- too many, too slow ----


def slow_question(rows=1):
    """Zeros and ones with four sums of them that have to come out: a market split, which takes any search as long as it may."""
    rng = np.random.default_rng(4)
    weights = rng.integers(0, 100, size=(4, 40)).tolist()
    sums = [[{str(d): float(v) for d, v in enumerate(row)}, "==", float(sum(row) // 2)] for row in weights]
    actions = {"integer": [str(d) for d in range(40)], "bounds": {str(d): [0, 1] for d in range(40)}, "linear": sums}
    return {"rows": [[0.0] * 40] * rows, "target": "yes", "prob": 0.51, "actions": actions}


def wait_for_work(server, count):
    """Until so many requests are being solved."""
    until = time.monotonic() + 20
    while server.metric("ifonly_queue_depth")["ifonly_queue_depth"] < count:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(scope="module")
def hard_search(tmp_path_factory):
    """A model for `slow_question`."""
    folder = tmp_path_factory.mktemp("hard")
    rng = np.random.default_rng(3)
    A = rng.normal(size=(3, 40)) * 0.05
    ifonly.Model(A, np.zeros(3), ["no", "yes", "maybe"]).save(folder / "hard.npz")
    return folder / "hard.npz"


def test_a_search_that_takes_too_long_stops_and_says_so(tmp_path, hard_search):
    with serving(tmp_path, hard_search, "--timeout", "1", "--threads", "1") as server:
        began = time.monotonic()
        reply = server.client.post("/v1/invert", json=slow_question())
        assert time.monotonic() - began < 4
        assert reply.status_code in (200, 504)
        if reply.status_code == 200:
            assert reply.json()["answers"][0]["status"] == "stopped"
        many = server.client.post("/v1/invert", json=slow_question(50))
        assert many.status_code in (200, 504)
        path = server.client.post("/v1/path", json={"row": [0.5] * 40, "target": "yes", "actions": slow_question()["actions"]})
        assert (path.status_code, path.json()["complete"]) == (200, False)
        assert time.monotonic() - began < 12
        deadline = time.monotonic() + 10
        while server.metric("ifonly_queue_depth")["ifonly_queue_depth"] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server.metric("ifonly_queue_depth")["ifonly_queue_depth"] == 0  # its thread is free again


def ask_on(sock, question):
    for _ in range(100):
        sock.sendall(question)
        time.sleep(0.1)


def test_a_reply_that_nobody_reads_is_not_kept(tmp_path):
    model_file, _ = make_pixels(tmp_path)
    question = keep_alive({"rows": [[0.5] * 64] * 1000, "target": 1})
    with serving(tmp_path, model_file, "--timeout", "2") as server, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.settimeout(20)
        with pytest.raises(OSError, match=r"reset|Broken"):  # hung up on, though not one byte was read
            ask_on(sock, question)
        assert server.answer(row=[0.5] * 64)["status"] == "exact"


@pytest.mark.parametrize("searches", [2, 4])
def test_short_questions_do_not_wait_for_long_searches(tmp_path, hard_search, searches):
    """Neither a plain one nor one with limits, which is done where the searches are."""
    row = [0.5] * 40
    limited = {"actions": {"frozen": ["0", "1"], "bounds": {"2": [0.5, 9.5]}}}
    with serving(tmp_path, hard_search, "--timeout", "60") as server, ThreadPoolExecutor(searches) as pool:
        jobs = [pool.submit(server.raw, post(json.dumps(slow_question()).encode()), timeout=60) for _ in range(searches)]
        wait_for_work(server, searches)
        for question in ({}, limited, {**limited, "detail": "page"}, {"actions": {"step": {"3": 0.5}}}):
            assert server.answer(row=row, target="yes", **question)["status"] == "exact"
        assert not any(job.done() for job in jobs)  # they have 48 seconds
        server.process.kill()


# ---- another model ----


def test_a_changed_model_takes_the_place_of_the_old_without_a_lost_request(tmp_path):
    model_file, data = make_toy(tmp_path)
    old, new = toy_model(), ifonly.Model.binary([2.0, -0.5, 0.05], -1.0, ["refused", "approved"], ["income", "loans", "age"])
    expected = [ifonly.invert(model, ROW, "approved", prob=0.8).x for model in (old, new)]
    question = keep_alive({"row": ROW, "target": "approved", "prob": 0.8})
    with serving(tmp_path, model_file, data) as server:
        before = server.client.get("/v1/model").json()["fingerprint"]

        def change():
            new.save(tmp_path / "next.npz")
            os.replace(tmp_path / "next.npz", model_file)
            until = time.monotonic() + 20
            while server.client.get("/v1/model").json()["fingerprint"] == before:
                assert time.monotonic() < until
                time.sleep(0.1)

        threads = busy(server, [question], 1.0, clients=4, then=change)
        after = server.client.get("/v1/model").json()["fingerprint"]
        models = set()
        for thread in threads:
            assert thread.lost == 0
            for _, status, body in thread.replies:
                assert status == 200
                reply = json.loads(body)
                which = [before, after].index(reply["model"]["fingerprint"])
                np.testing.assert_allclose(reply["answers"][0]["x"], expected[which], rtol=SAME)
                models.add(which)
        assert models == {0, 1}
        assert server.metric("ifonly_model_loads_total")['ifonly_model_loads_total{model="toy",result="ok"}'] == 2


def test_a_broken_file_leaves_the_old_model_in_its_place(tmp_path):
    model_file, data = make_toy(tmp_path)
    with serving(tmp_path, model_file, data) as server:
        before = server.answer(row=ROW, target="approved")
        whole = model_file.read_bytes()
        model_file.write_bytes(whole[: len(whole) // 2])
        until = time.monotonic() + 15
        while server.client.get("/readyz").json()["models"]["toy"] is None and time.monotonic() < until:
            time.sleep(0.1)
        state = server.client.get("/readyz")
        assert (state.status_code, state.json()["status"]) == (200, "ready")
        assert "served as before" in state.json()["models"]["toy"]
        assert server.answer(row=ROW, target="approved") == before
        assert server.metric("ifonly_model_loads_total")['ifonly_model_loads_total{model="toy",result="failed"}'] == 1
        assert [line for line in server.log() if line["event"] == "model not loaded"]
        model_file.write_bytes(whole)
        while server.client.get("/readyz").json()["models"]["toy"] is not None and time.monotonic() < until + 15:
            time.sleep(0.1)
        assert server.client.get("/readyz").json()["models"]["toy"] is None


def test_changed_data_are_read_again(tmp_path):
    model_file, data = make_toy(tmp_path)
    with serving(tmp_path, model_file, data) as server:
        data.write_text("id,income,loans,age\nNew,0.5,2,31\n")
        until = time.monotonic() + 15
        while server.client.get("/v1/rows").json()["total"] == 5 and time.monotonic() < until:
            time.sleep(0.1)
        rows = server.client.get("/v1/rows").json()
        assert [row["keys"]["id"] for row in rows["rows"]] == ["New"]


# ---- its end ----


def test_sigterm_under_load_loses_no_request(tmp_path):
    model_file, data = make_toy(tmp_path)
    question = keep_alive({"row": ROW, "target": "approved", "prob": 0.8})
    with serving(tmp_path, model_file, data) as server:
        threads = busy(server, [question], 2.0, clients=32, then=lambda: server.process.send_signal(signal.SIGTERM))
        assert server.process.wait(20) in (0, -signal.SIGTERM)
        assert all(thread.refused for thread in threads)  # each met a closed door in the end
        assert [thread.lost for thread in threads] == [0] * 32
        assert {status for thread in threads for _, status, _ in thread.replies} == {200}
        assert [line["event"] for line in server.log()][-1] == "stopped"
        answered = sum(line["event"] == "request" for line in server.log())
        assert answered == sum(len(thread.replies) for thread in threads)


def test_sigterm_waits_for_a_search_that_has_begun(tmp_path, hard_search):
    with serving(tmp_path, hard_search, "--timeout", "4") as server:
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(httpx.post, f"{server.url}v1/invert", json=slow_question(), timeout=30)
            wait_for_work(server, 1)
            server.process.send_signal(signal.SIGTERM)
            reply = job.result()
        assert reply.status_code == 200
        assert reply.headers["connection"] == "close"
        assert server.process.wait(20) in (0, -signal.SIGTERM)


def test_ctrl_c_is_no_error(tmp_path):
    with serving(tmp_path, *make_toy(tmp_path)) as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 130
        assert "Traceback" not in (tmp_path / "server.log").read_text()


def test_nothing_of_the_data_is_left_behind(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    with serving(tmp_path, *make_credit(tmp_path)) as server:
        assert server.client.get("/v1/rows").json()["total"] == 1000
        assert not list((tmp_path / "tmp").rglob("*.arrow"))
        server.process.kill()
        server.process.wait(20)
    assert not list((tmp_path / "tmp").rglob("*.arrow"))


def test_a_taken_port_is_said_in_one_line(tmp_path, capsys):
    from ifonly import cli

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as stop:
        cli.main(["serve", str(make_toy(tmp_path)[0]), "--port", str(taken.getsockname()[1]), "--no-open"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
