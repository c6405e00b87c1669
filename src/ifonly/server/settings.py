"""How much a server takes, and from whom."""

from dataclasses import dataclass, field

from ifonly.engines.threads import available

__all__ = ["LOOPBACK", "Settings"]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Settings:
    """Limits and permissions of a server.

    Attributes
    ----------
    max_rows : int
        Rows in one request.
    max_body : int
        Bytes of one request's body. All bodies together may have `BODIES` times as many.
    timeout : float
        Seconds for the headers of a request to come, and from then to its answer.
    queue : int
        Requests that wait or are solved at once; one more is told to come back.
    threads : int
        For what takes long: limits, searches, many rows.
    token : str, optional
        What requests have to bring.
    hosts : frozenset of str
        The names by which the server may be called; ``*`` for any.
    log_data : bool
        Whether questions and answers are written to the log.
    connections : int
        That are open at once.
    idle_timeout : float
        Seconds that a connection may be quiet between two requests: longer than gateways wait, so that these hang up first.
    drain : float
        Seconds that connections get to send their last request after SIGTERM.

    """

    max_rows: int = 1000
    max_body: int = 8 * 2**20
    timeout: float = 10.0
    queue: int = 1000
    threads: int = field(default_factory=available)
    token: str | None = None
    hosts: frozenset[str] = LOOPBACK
    log_data: bool = False
    connections: int = 4096
    idle_timeout: float = 75.0
    drain: float = 5.0
