"""The CUDA sources with their options: how rows are shared out among threads. Nothing here needs a GPU."""

import re
from importlib.resources import files
from itertools import count
from typing import NamedTuple

__all__ = ["MOST_CLASSES", "MOST_ROWS", "Slices", "block_bytes", "code", "gram_pitch", "newton_options", "passes_options"]
__all__ += ["MOST_FEATURES", "MOST_LIMITED_CLASSES", "Blocks", "limited_blocks", "limited_options", "rows_of", "slices"]
__all__ += ["BLOCKS", "START_BLOCKS", "WARP", "kept_numbers", "step_threads", "team_of", "threads_of", "tiled"]

MOST_CLASSES = 128  # of newton.cu: Newton's matrix has to fit into the shared memory of a block
MOST_ROWS = 32  # of passes.cu: the more rows A has, the narrower the slice that fits into the shared memory of a block

# Slots of passes.cu, of eight rows each: two are worked on while two come or go. What is left of a multiprocessor's memory is a
# cache for newton.cu beside it: a million rows of 784 features take 5.92 ms with four slots, 6.14 with six.
SLOTS = 4
# A multiprocessor of Hopper has 228 kB, of which every block costs 1.
SHARED_BYTES, PER_BLOCK = 228 * 1024, 1024

# Threads per row, for up to so many classes. Measured on an H200, ms per 100 000 rows: K = 16 one thread 1.1, eight 2.0; K = 20
# one 2.9 (but its unrolled loops take more than a minute to compile), eight 4.0, 16 7.6; K = 32 eight 18, 16 12, 32 16.
TEAMS = ((16, 1), (24, 8), (32, 16), (64, 32), (MOST_CLASSES, 128))

WARP = 32  # a team that keeps Newton's matrix in registers (tiles.hpp)
ALONE, TOGETHER = 128, 64  # threads of a block of newton.cu, of single threads and of small teams
# Blocks that have to fit on a multiprocessor: with two, each thread can have all 255 registers that there are. 100 000 rows of
# K = 51: starts take 1.16 ms with two and 0.95 with three, which spill a few numbers; all of it 11.2 with two, 11.4 with six.
BLOCKS, START_BLOCKS = 2, 3

# Coordinate steps of the start, in single precision, per rival. Mean and largest number of iterations, and ms for a million
# rows of MNIST (K = 10), with 2, 3 and 4: 3.06, 12, 1.44; 2.82, 5, 1.32; 2.47, 4, 1.34. A warp waits for its slowest row.
PAIRS = 3

# What a source includes, each after those that it includes itself.
HEADERS = {
    "newton": ("numbers.hpp", "phi.hpp", "newton.hpp", "answer.hpp", "tiles.hpp", "kept.hpp"),
    "limited": ("numbers.hpp", "limits.hpp", "kept.hpp"),
    "passes": (),
}

# Of limited.cu: a class for each lane of a warp; rows of a block; features, of which each row that is worked on has bits.
MOST_LIMITED_CLASSES, MOST_WARPS, MOST_FEATURES = 32, 16, 2**15 - 1
LISTED = 1024  # its features of which changes are listed at a time
LEAST_WARPS = 6  # with fewer, keeping the classes' rows in shared memory does not pay


def code(name: str) -> str:
    """The text of a source with what it shares with the CPU: one text to compile."""
    parts = (*HEADERS[name], f"{name}.cu")
    text = "\n".join((files("ifonly.native") / part).read_text(encoding="utf-8") for part in parts)
    return re.sub(r'^#include ".*"$|^#pragma once$', "", text, flags=re.MULTILINE)


def team_of(K: int) -> int:
    """How many threads share a row."""
    return next(team for most, team in TEAMS if most >= K)


def threads_of(team: int) -> int:
    """How many threads a block of newton.cu has."""
    return ALONE if team == 1 else max(TOGETHER, team)


def step_threads(K: int) -> int:
    """The same for single threads and rows with limits, each of which has a matrix Ḡ of its own."""
    return min(ALONE, (SHARED_BYTES // BLOCKS - PER_BLOCK) // (8 * gram_pitch(K)) // WARP * WARP)


def rows_of(K: int) -> int:
    """R, the rows that a change is made of: A's own, or for K = 2 their difference."""
    return 1 if K == 2 else K


def gram_pitch(K: int) -> int:
    """From one target's Ḡ to the next in newton.cu's table of them."""
    return (K - 1) ** 2 | 1


def block_bytes(K: int, team: int) -> int:
    """Shared memory of a block of newton.cu: single threads share the table of Ḡ, each team has its ``Own``."""
    n = K - 1
    if team == 1:
        return 8 * K * gram_pitch(K)
    matrix = 1 if team == WARP else n * (n + 1) // 2
    used = 13 * n + matrix + (3 * n + 1) // 2
    return threads_of(team) // team * 8 * (used + (team - used) % 16 + 1)


class Slices(NamedTuple):
    """How ``passes.cu`` cuts up the features: a block keeps one slice of A, and sources stream past it."""

    number: int
    width: int  # features, a multiple of 8
    shared: int  # bytes


def slices(D: int, K: int, itemsize: int, processors: int) -> Slices:
    """As few slices as leave room for their slots, and so many that they can be shared out evenly among the processors.

    A block takes so much shared memory that one of newton.cu fits beside it: one waits for memory while the other computes.
    """
    R, team = rows_of(K), team_of(K)
    sums = 8 * 8 * 8 * 2 * (-(-R // 16) * 16 + 2) + 128  # of the warps, and barriers
    beside = block_bytes(K, team)

    def cut(number: int) -> Slices:
        width = -(-D // (8 * number)) * 8
        slot = 8 * _apart(width, 8, 128 // itemsize) * itemsize
        kept = 8 * max((R + 1) * _apart(width, 8, 16), _apart(R * _apart(width, 4, 16), 0, 16))
        return Slices(-(-D // width), width, kept + SLOTS * slot)

    most = SHARED_BYTES - 2 * PER_BLOCK - sums - beside
    fewest = next(number for number in count(1) if cut(number).shared <= most)
    return max(map(cut, range(fewest, 2 * fewest)), key=lambda cut: (processors // cut.number * cut.number, -cut.number))


def _apart(n: int, r: int, m: int) -> int:
    """passes.cu's ``apart``."""
    return n + (r - n) % m


def newton_options(
    K: int, *, goal: bool, team: int | None = None, blocks: int = BLOCKS, threads: int | None = None
) -> tuple[str, ...]:
    """How ``newton.cu`` is compiled for K classes; ``goal`` for the probability form."""
    team = team or team_of(K)
    threads = threads or threads_of(team)
    return _options(CLASSES=K, TEAM=team, AIMS=int(goal), PAIRS=PAIRS * (K - 1), THREADS=threads, BLOCKS=blocks)


def passes_options(R: int, source: str, answer: str, cut: Slices) -> tuple[str, ...]:
    """How ``passes.cu`` is compiled for R rows of A and these C types of numbers."""
    return _options(ROWS=R, SOURCE=source, ANSWER=answer, WIDTH=cut.width, SLOTS=SLOTS)


def tiled(D: int) -> int:
    """Features in whole tiles, one for each lane of a warp."""
    return -(-D // 32) * 32


class Blocks(NamedTuple):
    """How limited.cu shares out the memory of a multiprocessor: warps, and whether classes' rows and sources are kept there."""

    warps: int
    staged: bool
    shared: int  # bytes


def limited_blocks(D: int, K: int) -> Blocks | None:
    """As many warps as are of use, or as there is room for; None where there is none for a single one."""
    features, matrix, room = tiled(D), 8 * K * (K | 1), SHARED_BYTES - PER_BLOCK

    def cut(staged: bool) -> Blocks:
        kept = matrix + (8 * (K * (features + 4) + 2 * features) if staged else 0)
        bits = (features // 32 + 1) // 2
        each = (8 * features if staged else 0) + matrix + 8 * (32 + bits) + 2 * min(features, LISTED)
        warps = min((room - kept) // each, MOST_WARPS if K <= 16 else 8)
        warps -= warps % 4 if warps > 4 else 0  # as many for each of the four schedulers
        return Blocks(warps, staged, kept + warps * each)

    best = next((found for found in map(cut, (True, False)) if found.warps >= LEAST_WARPS), cut(False))
    return best if best.warps > 0 else None


def kept_numbers(K: int) -> int:
    """Of a row of kept.hpp's ``Kept``."""
    return (K - 1) * (K - 1 + 5) + 3


def limited_options(
    D: int, K: int, source: str, kind: dict[str, int], *, goal: bool, warps: int, staged: bool
) -> tuple[str, ...]:
    """How ``limited.cu`` is compiled; ``kind`` is that of `limited.Tables`."""
    return _options(CLASSES=K, FEATURES=D, WARPS=warps, SOURCE=source, AIMS=int(goal), STAGED=int(staged), **kind)


def _options(**defines: float | str) -> tuple[str, ...]:
    return ("-std=c++17", *(f"-D{name}={value}" for name, value in defines.items()))
