"""A running server for tests: the command itself, in a process of its own, on a port of its own."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pandas as pd

import ifonly
from ifonly.cli import credit

TOY = ["income", "loans", "age"]  # as in the examples of the OpenAPI description


class Running:
    """A server: its process, its address, and what it wrote."""

    def __init__(self, process, url, log):
        self.process, self.url, self._log = process, url, log
        self.port = int(url.rstrip("/").rpartition(":")[2])
        self.client = httpx.Client(base_url=url, timeout=60)

    def invert(self, **question):
        return self.client.post("/v1/invert", json=question)

    def answer(self, **question):
        """The answer to a question for one row; an error fails the test."""
        reply = self.invert(**question)
        assert reply.status_code == 200, reply.text
        (found,) = reply.json()["answers"]
        return found

    def refused(self, path="/v1/invert", **question):
        """(status, field, message) of a question that is refused."""
        reply = self.client.post(path, json=question)
        error = reply.json()["error"]
        return reply.status_code, error["field"], error["message"]

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def raw(self, data, *, timeout=30.0):
        """What comes back for some bytes, until the server hangs up."""
        with self.connect() as sock:
            sock.settimeout(timeout)
            sock.sendall(data)
            return everything(sock)

    def log(self):
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def requests(self, count=0, seconds=20):
        """The log's lines about requests, once there are so many: they are written after the reply."""
        until = time.monotonic() + seconds
        while True:
            found = [line for line in self.log() if line["event"] == "request"]
            if len(found) >= count:
                return found
            assert time.monotonic() < until, f"{len(found)} of {count} requests are in the log"
            time.sleep(0.05)

    def metric(self, name):
        lines = self.client.get("/metrics").text.splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)}


def everything(sock):
    """What a socket has to say, to the end."""
    found = b""
    while True:
        try:
            part = sock.recv(65536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


def post(body, *headers, path="/v1/invert", length=None):
    """The bytes of a request."""
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Connection: close", *headers]
    size = len(body) if length is None else length
    return "\r\n".join([*head, f"Content-Length: {size}", "", ""]).encode() + body


@contextmanager
def serving(folder, *arguments, code=None):
    """``ifonly serve`` with these arguments; ``code`` for a command that is not what it should be."""
    log = Path(folder) / "server.log"
    program = ["-m", "ifonly"] if code is None else ["-c", code]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, *program, "serve", *map(str, arguments), "--port", "0", "--no-open"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        line = process.stdout.readline()
        assert line.startswith("ifonly is at "), log.read_text()
        server = Running(process, line.split()[3], log)
        try:
            yield server
        finally:
            server.client.close()
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=60)


def toy_model():
    return ifonly.Model.binary([1.0, -0.5, 0.05], -1.0, ["refused", "approved"], TOY)


def make_toy(folder):
    """A model of three numbers, and rows of which two cannot be read."""
    toy_model().save(folder / "toy.npz")
    (folder / "toy.csv").write_text(
        "id,income,loans,age\n007,0.5,2,31\n008,1.5,1,45\nAnna,x,1,28\n010,2.5,,52\n011,0.25,3,28\n"
    )
    return folder / "toy.npz", folder / "toy.csv"


def make_credit(folder):
    """German credit: categories and numbers, all thousand applicants."""
    frame = credit.applicants()
    ifonly.as_model(credit.pipeline(frame[:800])).save(folder / "credit.npz")
    frame.to_parquet(folder / "credit.parquet")
    return folder / "credit.npz", folder / "credit.parquet"


def make_pixels(folder, n_features=64, n_classes=10, n_rows=40):
    """A softmax over numbers without names, and images."""
    rng = np.random.default_rng(8)
    model = ifonly.Model(rng.normal(size=(n_classes, n_features)) / 8, rng.normal(size=n_classes) / 4)
    model.save(folder / "pixels.npz")
    rows = pd.DataFrame(rng.random((n_rows, n_features)), columns=[f"p{i}" for i in range(n_features)])
    rows.insert(0, "digit", rng.integers(0, 10, n_rows))
    rows.to_parquet(folder / "pixels.parquet")
    return folder / "pixels.npz", folder / "pixels.parquet"


@contextmanager
def serving_every_kind(folder, *more):
    """One with numbers, categories, pixels and scores alone, and data for all but the last; ``more`` files besides."""
    ifonly.Model.binary([1.0, 2.0], 0.5, ["no", "yes"], ["u", "v"], hard=True).save(folder / "hard.npz")
    files = [*make_toy(folder), *make_credit(folder), *make_pixels(folder), *more, folder / "hard.npz"]
    with serving(folder, *files, "--image", "8x8", "--key", "id", "--key", "digit") as found:
        found.folder = folder
        yield found
