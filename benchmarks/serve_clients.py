"""Clients for `serve.py`, in a process of their own: so many connections, each of which asks again as soon as it is answered.

As lean as asyncio allows, because they share the machine with the server: prepared bytes out, and of what comes back only the
status and the length are looked at. Prints one line of JSON.
"""

import argparse
import asyncio
import base64
import json
import time

import numpy as np

QUESTIONS = 50
TARGETS = 10


def requests(width: int, rows: int, packed: bool) -> list[bytes]:
    """Different rows, each with a target and a probability, as the bytes of a request."""
    rng = np.random.default_rng(1)
    found = []
    for X in rng.random((QUESTIONS, rows, width)):
        numbers = base64.b64encode(X.astype("<f8").tobytes()).decode() if packed else X.tolist()
        question = {"target": int(rng.integers(TARGETS)), "prob": float(rng.uniform(0.5, 0.95)), "pack": packed}
        question |= {"rows": numbers} if rows > 1 else {"row": numbers if packed else numbers[0]}
        body = json.dumps(question).encode()
        head = ["POST /v1/invert HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        found.append("\r\n".join([*head, "", ""]).encode() + body)
    return found


class Client(asyncio.Protocol):
    """One connection; what it sees goes into lists that all share."""

    def __init__(self, number: int, questions: list[bytes], end: float, times: list[float], errors: list[str]) -> None:
        self.turn, self.questions, self.end, self.times, self.errors = number, questions, end, times, errors
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.head, self.left = b"", -1
        self.began = time.perf_counter()
        self.turn += 1
        self.transport.write(self.questions[self.turn % len(self.questions)])

    def data_received(self, data: bytes) -> None:
        if self.left >= 0:
            self.left -= len(data)
        else:
            self.head += data
            at = self.head.find(b"\r\n\r\n")
            if at < 0:
                return
            if not self.head.startswith(b"HTTP/1.1 200"):
                self.errors.append(self.head[:200].decode(errors="replace"))
            length = self.head[:at].lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            self.left = int(length) - (len(self.head) - at - 4)
        if self.left == 0:
            now = time.perf_counter()
            self.times.append(now - self.began)
            if now < self.end:
                self.ask()
            else:
                self.left = -1
                self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if time.perf_counter() < self.end:
            self.errors.append(f"hung up: {error}")
        self.closed.set_result(None)


async def load(port: int, clients: int, seconds: float, questions: list[bytes]) -> dict:
    loop = asyncio.get_running_loop()
    times, errors = [], []
    began = time.perf_counter()
    pairs = [
        await loop.create_connection(lambda i=i: Client(i, questions, began + seconds, times, errors), "127.0.0.1", port)
        for i in range(clients)
    ]
    await asyncio.gather(*(client.closed for _, client in pairs))
    took = time.perf_counter() - began
    p50, p99 = (float(q) * 1e3 for q in np.quantile(times, [0.5, 0.99]))
    return {
        "requests": len(times),
        "a_second": len(times) / took,
        "p50": p50,
        "p99": p99,
        "errors": errors[:5],
        "n_errors": len(errors),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--width", type=int, default=784)
    parser.add_argument("--packed", action="store_true")
    asked = parser.parse_args()
    questions = requests(asked.width, asked.rows, asked.packed)
    print(json.dumps(asyncio.run(load(asked.port, asked.clients, asked.seconds, questions))))


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        pass
    else:
        uvloop.install()
    main()
