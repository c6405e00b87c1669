"""Texts of the user's in little room: what a terminal would act on is written out, and long names stay apart."""

import re
from collections.abc import Sequence
from string import ascii_letters, digits

__all__ = ["UNSEEN", "cut", "shortened", "visible"]

# What a terminal acts on or cannot write: control characters, ends of lines and paragraphs, changes of direction, surrogates.
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
GAP = "…"
LETTERS = ascii_letters + digits
HEAD = 4  # characters that a name keeps at its beginning, where it takes a window further on to tell it from others


def visible(text: str) -> str:
    r"""A text with what a terminal would act on written out, as Python writes it.

    >>> print(visible("red \x1b[31m, and\nanother line"))
    red \x1b[31m, and\nanother line
    """
    return UNSEEN.sub(lambda found: repr(found[0])[1:-1], text)


def cut(text: str, most: int) -> str:
    """A text of at most so many characters, without its middle where it is longer.

    >>> cut("average_monthly_balance", 12), cut("age", 12)
    ('averag…lance', 'age')
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return text[: most - 1 - tail] + GAP + text[len(text) - tail :]


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Names of at most so many characters: shortened in the middle, and different where the names are.

    >>> shortened(["monthly_balance_of_january", "monthly_balance_of_february", "age"], 12)
    ['monthl…nuary', 'monthl…ruary', 'age']
    >>> shortened([f"the balance of account {i} in the first quarter of the year" for i in (11, 12)], 16)
    ['the …11 in the …', 'the …12 in the …']
    """
    found = {name: cut(name, most) for name in names}
    for same in _alike(found):
        apart = (i for i, letters in enumerate(zip(*same, strict=False)) if len(set(letters)) > 1)
        shared = next(apart, min(map(len, same)))
        beginning = same[0][:shared]
        at = len(beginning.rstrip(LETTERS)) if beginning.isascii() else shared  # where its last word or number begins
        family = [name for name in found if len(name) > most and name.startswith(same[0][:at])]  # to be shortened alike
        tried = ({name: _window(name, place, most) for name in family} for place in (at, *range(shared, max(map(len, same)))))
        found |= max(tried, key=lambda texts: len(set(texts.values())), default={})
    for same in _alike(found):  # no window tells all of them apart, or it made them look like another
        for i, name in enumerate(same[1:], 2):
            mark = f"{GAP}({i})"
            found[name] = found[name][: max(most - len(mark), 0)] + mark
    return [found[name] for name in names]


def _alike(found: dict[str, str]) -> list[list[str]]:
    """Names that came out the same."""
    groups: dict[str, list[str]] = {}
    for name, text in found.items():
        groups.setdefault(text, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _window(name: str, at: int, most: int) -> str:
    """The beginning of a name, and what stands at a place further on."""
    text = name[max(at, HEAD) :]
    if len(text) < most - HEAD:
        return name[: most - 1 - len(text)] + GAP + text
    return name[:HEAD] + GAP + text[: max(most - HEAD - 2, 1)] + GAP
