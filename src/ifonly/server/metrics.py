"""Counters, gauges and histograms in Prometheus's text format; few enough to be written by hand.

All are changed on the event loop only, so that none needs a lock.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

__all__ = ["Metrics"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class _Counter:
    kind = "counter"

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels
        self.values: dict[tuple[str, ...], float] = defaultdict(float)

    def add(self, *labels: str, by: float = 1.0) -> None:
        self.values[labels] += by

    def lines(self, name: str) -> Iterable[str]:
        for labels, value in sorted(self.values.items()):
            yield f"{name}{_braces(self.labels, labels)} {value:.10g}"


class _Gauge(_Counter):
    kind = "gauge"

    def __init__(self, read: Callable[[], dict[tuple[str, ...], float]], labels: Sequence[str] = ()) -> None:
        super().__init__(labels)
        self.read = read

    def lines(self, name: str) -> Iterable[str]:
        self.values = defaultdict(float, self.read())
        return super().lines(name)


class _Histogram:
    kind = "histogram"

    def __init__(self, edges: Sequence[float], labels: Sequence[str] = ()) -> None:
        self.edges, self.labels = edges, labels
        self.counts: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * (len(edges) + 1))
        self.sums: dict[tuple[str, ...], float] = defaultdict(float)

    def observe(self, value: float, *labels: str) -> None:
        self.counts[labels][bisect_left(self.edges, value)] += 1
        self.sums[labels] += value

    def lines(self, name: str) -> Iterable[str]:
        for labels, counts in sorted(self.counts.items()):
            total = 0
            for edge, count in zip((*self.edges, float("inf")), counts, strict=True):
                total += count
                shown = "+Inf" if edge == float("inf") else f"{edge:g}"
                yield f"{name}_bucket{_braces((*self.labels, 'le'), (*labels, shown))} {total}"
            yield f"{name}_sum{_braces(self.labels, labels)} {self.sums[labels]:.10g}"
            yield f"{name}_count{_braces(self.labels, labels)} {total}"


def _braces(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class Metrics:
    """What a server counts."""

    def __init__(self) -> None:
        self.requests = _Counter(("method", "path", "status"))
        self.seconds = _Histogram(SECONDS, ("path",))
        self.rows = _Counter(("model",))
        self.batches = _Histogram(ROWS)
        self.loads = _Counter(("model", "result"))
        self._gauges: dict[str, tuple[str, _Gauge]] = {}

    def gauge(self, name: str, text: str, read: Callable[[], dict[tuple[str, ...], float]], labels: Sequence[str] = ()) -> None:
        """Something that is looked at when someone asks."""
        self._gauges[name] = text, _Gauge(read, labels)

    def text(self) -> str:
        """All of it."""
        found = {
            "ifonly_requests_total": ("Requests by address and HTTP status.", self.requests),
            "ifonly_request_seconds": ("From the headers of a request to its answer.", self.seconds),
            "ifonly_rows_total": ("Rows that were answered.", self.rows),
            "ifonly_batch_rows": ("Requests for one row that were solved by one call.", self.batches),
            "ifonly_model_loads_total": ("Models that were loaded, or could not be.", self.loads),
            **self._gauges,
        }
        lines = []
        for name, (text, metric) in found.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {metric.kind}", *metric.lines(name)]
        return "\n".join(lines) + "\n"
