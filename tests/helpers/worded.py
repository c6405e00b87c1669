"""Random limits, each with the words that a user would say, and questions with only some of them.

Nothing here knows how ifonly takes limits apart: `Limits.options` puts together what `ifonly.invert` takes, from those that are
kept.
"""

from typing import Any

import numpy as np

from ifonly import Actions, Model, invert

LETTERS = "abc"


class Limits:
    """A model, a source, and limits: words → (kind, what it says)."""

    def __init__(self, rng, K=None, *, rules=1, hard=False, whole=True):
        K, D = K or int(rng.integers(2, 5)), int(rng.integers(2, 6))
        self.x = np.round(rng.normal(size=D) * 1.5, 1)
        self.names = [f"f{d}" for d in range(D)]
        self.said: dict[str, tuple[str, Any]] = {}
        group = list(range(int(rng.integers(2, 4)))) if D >= 4 and rng.random() < 0.4 else []
        if group:
            self._group(rng, group)
        self.numbers = [d for d in range(D) if d not in group]
        for d in self.numbers:
            self._number(rng, d, whole)
        for _ in range(rules if len(self.numbers) > 1 else 0):
            self._rule(rng)
        if rng.random() < 0.3:
            most = int(rng.integers(1, D))
            self.said[f"at most {most} change{'s' if most > 1 else ''}"] = ("max_changes", most)
        A, b = rng.normal(size=(K, D)) * rng.choice([0.5, 1, 2]), rng.normal(size=K)
        self.model = Model(A, b, feature_names=self.names, hard=hard)
        self.k = int(self.model.scores(self.x).argmin())

    def _group(self, rng, group):
        for d in group:
            self.names[d] = f"job={LETTERS[d]}"
        names = [self.names[d] for d in group]
        self.x[group] = np.eye(len(group))[int(rng.integers(len(group)))]
        self.said[f"job is one of {', '.join(LETTERS[: len(group)])}"] = ("one_of", names)
        if rng.random() < 0.3:
            self.said["job is frozen"] = ("frozen", names)
        elif rng.random() < 0.3:
            name = str(rng.choice(names))
            self.said[f"{name} is frozen"] = ("frozen", [name])

    def _number(self, rng, d, whole):
        name = self.names[d]
        if whole and rng.random() < 0.3:
            self.x[d] = np.round(self.x[d])
            self.said[f"{name} is a whole number"] = ("integer", [name])
        for side, sign, kind in (("≥", -1, "low"), ("≤", 1, "high")):
            if rng.random() < 0.8:
                end = float(f"{self.x[d] + sign * round(rng.uniform(0.2, 2), 1):g}")
                self.said[f"{name} {side} {end:g}"] = (kind, (name, end))
        what = str(rng.choice(["is frozen", "may only rise", "may only fall", ""], p=[0.15, 0.15, 0.1, 0.6]))
        if what:
            kind = {"is frozen": "frozen", "may only rise": "increase", "may only fall": "decrease"}[what]
            self.said[f"{name} {what}"] = (kind, [name])

    def _rule(self, rng):
        first, second = sorted(rng.choice(self.numbers, 2, replace=False).tolist())
        sense = str(rng.choice(["<=", ">="]))
        room = round(rng.normal() + (0.8 if sense == "<=" else -0.8), 1)
        rest = float(f"{self.x[first] - 2 * self.x[second] + room:g}") + 0.0
        words = f"{self.names[first]} − 2·{self.names[second]} {'≤' if sense == '<=' else '≥'} {rest:g}"
        self.said[words] = ("linear", ({self.names[first]: 1.0, self.names[second]: -2.0}, sense, rest))

    def options(self, kept):
        """Actions and ``max_changes`` with only these limits."""
        found: dict[str, Any] = {}
        bounds: dict[str, tuple[float | None, float | None]] = {}
        more = {}
        for words in kept:
            kind, what = self.said[words]
            if kind in ("low", "high"):
                low, high = bounds.get(what[0], (None, None))
                bounds[what[0]] = (what[1], high) if kind == "low" else (low, what[1])
            elif kind == "max_changes":
                more["max_changes"] = what
            else:
                found.setdefault(kind, []).extend([what] if kind in ("one_of", "linear") else what)
        return {"actions": Actions(**found, bounds=bounds or None), **more}

    def ask(self, kept, **goal):
        """The answer with only these limits."""
        return invert(self.model, self.x, self.k, **self.options(kept), **goal)
