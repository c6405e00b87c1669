"""From models to a process that listens: sockets, time-outs for those who never finish a sentence, and a quiet end."""

import asyncio
import gc
import logging
import socket
from collections.abc import Callable
from http import HTTPStatus
from time import monotonic
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ifonly.model.errors import InputError
from ifonly.server.app import create_app
from ifonly.server.models import Source
from ifonly.server.service import Service, Settings
from ifonly.server.wire import RefusedError

try:
    import resource
except ImportError:  # Windows
    resource = None

__all__ = ["listen", "serve"]

BACKLOG = 2048
GARBAGE = 20_000  # objects between two looks for garbage in circles, of which requests leave none
OTHER_FILES = 64  # that a process has open besides its connections
MOST_HEADERS = 64 * 2**10  # bytes
QUIET = 0.5  # seconds after SIGTERM in which a connection may still send the request it was about to send


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise InputError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
    return found


def serve(sources: list[Source], settings: Settings, sock: socket.socket, *, started: Callable[[], Any]) -> None:
    """Serve until SIGTERM or Ctrl-C; then answer what was asked, and return."""
    service = Service(sources, settings)
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [service.journal], False
    config = uvicorn.Config(
        create_app(service),
        http=_patient(settings.timeout, _room_for(settings.connections)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=int(settings.idle_timeout),
        timeout_graceful_shutdown=int(settings.timeout) + 1,
    )
    _Server(config, service, started).run([sock])


class _Server(uvicorn.Server):
    """A server that lets those finish who have begun."""

    def __init__(self, config: uvicorn.Config, service: Service, started: Callable[[], Any]) -> None:
        super().__init__(config)
        self.service, self.on_start = service, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # a few hundred thousand objects that stay: to go through them again and again takes 20 ms each time
        gc.set_threshold(GARBAGE)
        self.watcher = asyncio.create_task(self.service.shelf.watch())
        self.service.journal.write("started", models=self.service.shelf.listed())
        self.on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the door, answer what comes on open connections with ``Connection: close``, and go when all is quiet.

        uvicorn would close idle connections at once, and with them requests that are on their way.
        """
        self.service.draining = True
        self.service.journal.write("draining", connections=len(self.server_state.connections))
        self.watcher.cancel()
        for server in self.servers:
            server.close()
        quiet, end = monotonic() + QUIET, monotonic() + self.service.settings.drain
        while self.server_state.connections and monotonic() < end and not self.force_exit:
            if monotonic() > quiet and not any(_busy(connection) for connection in self.server_state.connections):
                break
            await asyncio.sleep(0.01)
        await super().shutdown(sockets)
        self.service.close()
        self.service.journal.write("stopped")
        self.service.journal.flush()  # the loop may not come round again


def _busy(connection: Any) -> bool:
    """Whether a request of this connection is being answered."""
    cycle = connection.cycle
    return cycle is not None and not cycle.response_complete


def _patient(timeout: float, most: int) -> type[asyncio.Protocol]:
    """The protocol of uvicorn with the time-outs it lacks, for questions that never end and replies that nobody reads."""
    base: Any = AutoHTTPProtocol

    class Patient(base):
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(_Whole(transport))
            self.head = 0  # bytes of headers that are not complete
            self.late = self.stalled = self.loop.call_later(timeout, self.refuse, 408)  # nothing stalls yet
            if len(self.connections) > most:
                self.refuse(503)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if _busy(self):
                self.head = 0
                if not self.cycle.more_body:  # all of the request is here
                    self.late.cancel()
                    return
            else:
                self.head += len(data)
                if self.head > MOST_HEADERS:
                    self.refuse(431)
            if self.late.cancelled():
                self.late = self.loop.call_later(timeout, self.refuse, 408)

        def pause_writing(self) -> None:
            super().pause_writing()
            self.stalled = self.loop.call_later(timeout, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self.stalled.cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            self.late.cancel()
            self.stalled.cancel()
            super().connection_lost(exc)

        def refuse(self, status: int) -> None:
            """Say so, and hang up; without a word on a connection that has not said one."""
            if not self.transport.is_closing() and (self.head or self.cycle is not None or status != 408):
                self.transport.write(_refusal(status))
            self.transport.close()

    return Patient


class _Whole:
    """A transport that sends the head of a reply and its body, which uvicorn writes one after the other, in one piece.

    That is one call of the system instead of two here, and the other side wakes up once. What is held back waits for the next
    write, and no longer than until the event loop comes round.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._held = transport, b""
        self.is_closing = transport.is_closing  # asked each time: sooner found than by __getattr__
        self._soon = asyncio.get_running_loop().call_soon

    def write(self, data: bytes) -> None:
        """Send this with what was held back, or hold it back."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.writelines([held, data])
        else:
            self._held = data
            self._soon(self._flush)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._transport.write(held)

    def close(self) -> None:
        """Close, once all has been sent."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _refusal(status: int) -> bytes:
    """A whole reply, for those who have not asked a whole question."""
    told = HTTPStatus(status).phrase
    error = RefusedError(told.lower(), None, status)
    head = {"content-type": "application/json", "content-length": len(error.body), **error.headers, "connection": "close"}
    lines = [f"HTTP/1.1 {status} {told}", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    return "\r\n".join(lines).encode() + error.body


def _room_for(connections: int) -> int:
    """How many connections the system allows, having asked for so many: one more should get a 503, not silence."""
    if resource is None:
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft - OTHER_FILES)
