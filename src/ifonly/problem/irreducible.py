"""What of a list is needed for something to hold: the deletion filter.

``holds`` must be monotone: what holds with some of the parts holds with more of them. Parts are dropped from the end of the
list, in runs that grow while dropping goes well and are halved when it does not, as long as it still holds without them. A part
is needed if it does not hold without it, with all that stand before it and all behind it that are needed. What is left in the
end are some of these, so that by monotony each part of it is needed there too. For k parts that are needed among n that takes
some k·log(n/k) trials where k is small, and n + k where it is not.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Needed", "irreducible"]

Part = TypeVar("Part")


class Needed(NamedTuple, Generic[Part]):
    """What is left of a list, in its order, and whether each part of it is proved to be needed."""

    parts: list[Part]
    proved: bool


def irreducible(
    parts: Sequence[Part], holds: Callable[[list[Part]], bool | None], late: Callable[[], bool] = lambda: False, run: int = 1
) -> Needed[Part]:
    """A part of the list that is as small as can be for ``holds``, which is known to hold for the whole.

    Those to be dropped first stand last, ``run`` of them at first. Where ``holds`` is None, which is not to be known, a part is
    kept. What is left when it is ``late`` still holds, but parts of it may not be needed.
    """
    left, needed, proved = list(parts), [], True
    while left:
        # 1. Without the last few.
        if late():
            return Needed([*left, *reversed(needed)], False)
        run = min(run, len(left))
        found = holds([*left[:-run], *reversed(needed)])
        # 2. They go; or fewer are tried; or the one that was tried stays.
        if found:
            left, run = left[:-run], 2 * run
        elif run > 1:
            run //= 2
        else:
            proved = proved and found is False
            needed.append(left.pop())
    return Needed(needed[::-1], proved)
