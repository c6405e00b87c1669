"""Where bytes go out."""

import asyncio

import pytest

from ifonly.server.run import _Whole


class Wire:
    """A transport that keeps what it is given, call by call."""

    def __init__(self):
        self.calls, self.closing = [], False

    def write(self, data):
        self.calls.append([data])

    def writelines(self, parts):
        self.calls.append(list(parts))

    def close(self):
        self.calls.append("closed")

    def is_closing(self):
        return self.closing

    def get_extra_info(self, name):
        return f"the {name}"


@pytest.fixture
def wire():
    return Wire()


def test_head_and_body_go_out_together(wire):
    async def reply():
        whole = _Whole(wire)
        for part in (b"head", b"body", b"next head", b"next body"):
            whole.write(part)
        await asyncio.sleep(0)
        assert wire.calls == [[b"head", b"body"], [b"next head", b"next body"]]

    asyncio.run(reply())


def test_a_head_does_not_wait_for_a_body_that_comes_later(wire):
    async def reply():
        whole = _Whole(wire)
        whole.write(b"head")
        assert wire.calls == []
        await asyncio.sleep(0)
        assert wire.calls == [[b"head"]]
        whole.write(b"body")
        await asyncio.sleep(0)
        assert wire.calls == [[b"head"], [b"body"]]

    asyncio.run(reply())


def test_what_is_held_back_is_sent_before_the_end(wire):
    async def reply():
        whole = _Whole(wire)
        whole.write(b"all of it")
        whole.close()
        await asyncio.sleep(0)
        assert wire.calls == [[b"all of it"], "closed"]

    asyncio.run(reply())


def test_all_else_is_the_transport_s(wire):
    async def ask():
        whole = _Whole(wire)
        wire.closing = True
        return whole.is_closing(), whole.get_extra_info("peername")

    assert asyncio.run(ask()) == (True, "the peername")
