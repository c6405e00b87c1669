"""What a house decides once: a value, to and from a file, and put to questions.

A policy limits what others may ask for. It is put to a question (`Policy.put`) before an engine sees it, and what comes of that
is an ordinary `Question` with ordinary `Actions` and an ordinary `Cost`.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.words import Word, Words
from ifonly.problem.actions import Actions
from ifonly.problem.policy import putting
from ifonly.problem.policy.said import Said
from ifonly.problem.policy.toml import written
from ifonly.problem.question import Question

__all__ = ["VERSION", "Policy"]

VERSION = 1  # of the file


@dataclass(frozen=True)
class Policy(Said):
    """Everything that a house decides once: what may change, what things are called, which decision is wanted.

    ``Policy.load("policy.toml")`` reads one, ``ifonly policy draft MODEL DATA`` writes a first one. ``invert(…, policy=)`` and
    everything else that asks takes it. What it forbids, nobody who asks can allow: limits given besides are added to its own.

    Parameters
    ----------
    house : str
        Who decides; for letters.
    language : str
        Of letters: "en", "de", "fr", "es".
    decimal, group : str
        The decimal mark, and what stands between groups of three digits, wherever people read numbers; data have plain ones. By
        default as in English, and in letters as their language has them.
    target : label
        The wanted class.
    prob : float
        The probability to reach.
    may_choose : sequence of "target", "prob", "cost"
        Which of these whoever asks may choose; the policy's are then only what holds where nothing is chosen.
    max_changes : int
        At most so many features change.
    scale, l1
        What a change costs, as for :class:`ifonly.Cost`; the cost of single features stands with them.
    features : mapping of columns to Feature
    classes : mapping of classes to names
        What people call the classes.
    one_of : sequence of groups of columns
        One-hot columns: one 1 in each group.
    linear : sequence of Rule

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model.binary([0.1, 1.0], -8.8, ["refused", "approved"], ["age", "income"])
    >>> policy = ifonly.Policy(
    ...     target="approved",
    ...     features={"age": {"frozen": True}, "income": {"name": "monthly income", "unit": "EUR", "step": 0.5}},
    ... )
    >>> ifonly.invert(model, [30.0, 2.0], policy=policy).sentence()
    'If only monthly income were at least 6 EUR instead of 2, the decision would be approved (54 %).'

    """

    # ---- files ----

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """The policy in a file, ``.toml`` or ``.json``; what is wrong with it is said with the place where it stands."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
            told = json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
            return cls.from_dict(told)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        except ValueError as error:  # of either format, or an InputError
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def of(cls, given: Any) -> "Policy":
        """A policy, from whatever stands for one: itself, a file, or a mapping."""
        if isinstance(given, cls):
            return given
        if isinstance(given, (str, os.PathLike)):
            return cls.load(given)
        if isinstance(given, Mapping):
            return cls.from_dict(given)
        raise InputError(f"policy must be a Policy, a file or a mapping; got {type(given).__name__}")

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "Policy":
        """What :meth:`to_dict` gave, or a file says."""
        if not isinstance(told, Mapping):
            raise InputError(f"a policy is a table; got {type(told).__name__}")
        version = told.get("version", VERSION)
        if version != VERSION:
            raise InputError(f"version must be {VERSION}; got {version!r}: the file is of another version of ifonly")
        return cls.made_of({name: value for name, value in told.items() if name != "version"})

    def to_dict(self) -> dict[str, Any]:
        """All that is said, as plain values."""
        return {"version": VERSION, **super().to_dict()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, ``.toml`` or ``.json``, from which :meth:`load` reads it back."""
        file = Path(path)
        is_json = file.suffix.lower() == ".json"
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n" if is_json else written(self.to_dict())
        file.write_text(text, encoding="utf-8", newline="\n")

    # ---- with a model ----

    @property
    def words(self) -> Words:
        """What people call things."""
        columns = {
            name: Word(part.name, part.unit, part.description, part.reason, part.values) for name, part in self.features.items()
        }
        return Words(columns, self.classes, self.house, self.language, self.decimal, self.group)

    def check(self, model: Model) -> None:
        """Whether everything in it is about this model; an InputError says what is not."""
        putting.check(self, model)

    def named(self, model: Model) -> Model:
        """The model, of whose answers people read in the policy's words."""
        return model.worded(self.words)

    def actions(self, model: Model) -> Actions:
        """What may change, as the library takes it."""
        return putting.actions_of(self, model)

    def put(self, model: Model, question: Question, *, along: bool = False) -> Question:
        """The question within the policy; a PolicyError says what it forbids.

        With ``along`` (a path) the goal is left open: λ, or the probability, moves.
        """
        return putting.put(self, model, question, along=along)
