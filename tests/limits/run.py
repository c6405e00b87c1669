"""Random problems, judged: ``python -m tests.limits.run --seed S --count N [--family F] [--time-limit T] [--write FILE]``.

Prints what went wrong, by kind and by family, and examples. ``--write`` keeps the wrong cases as JSON, in the shape of
``cases/limits.json``; ``--case NAME`` judges one problem of a report, and shows it as Python; with ``--shrink KIND`` a smaller
one that has the same mistake.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from pprint import pformat

import numpy as np

from tests.limits.families import FAMILIES, make
from tests.limits.shrink import shrink
from tests.limits.verdict import KINDS, Case, judge

__all__ = ["main", "run", "snippet", "table"]

TIME_LIMIT = 2.0


def run(families: list[str], count: int, seed: int = 0, time_limit: float = TIME_LIMIT) -> Iterator[Case]:
    """So many problems, family by family in turn."""
    _warm()
    for i in range(count):
        yield judge(make(families[i % len(families)], i // len(families), seed), time_limit=time_limit)


@cache
def _warm() -> None:
    """Compile what the library compiles, before the clock runs."""
    for K in (2, 3):
        problem = make("anything", 0)
        A, b = problem.A[:1] * np.arange(K)[:, None], np.zeros(K)
        replace(problem, A=A, b=b, target=0, goal="prob", want=0.6, cost=None, actions={"integer": [0]}).ask()


def family_of(case: Case) -> str:
    """Of a name."""
    return next(name for name in sorted(FAMILIES, key=len, reverse=True) if case.problem.name.startswith(name))


def table(cases: list[Case]) -> str:
    """Kinds by family, per thousand, and how many are ambiguous or were stopped."""
    total, kinds = Counter(map(family_of, cases)), Counter(kind for case in cases for kind in {v.kind for v in case.verdicts})
    found = Counter((family_of(case), kind) for case in cases for kind in {v.kind for v in case.verdicts})
    shown = [kind for kind in KINDS if kinds[kind]]
    width = max(map(len, FAMILIES))
    lines = [f"{'':{width}} {'asked':>6} {'wrong':>6} " + " ".join(f"{kind[:9]:>9}" for kind in shown) + "   (per thousand)"]
    for name in [*[name for name in FAMILIES if total[name]], "all"]:
        some = [case for case in cases if name in ("all", family_of(case))]
        each = [kinds[kind] if name == "all" else found[name, kind] for kind in shown]
        numbers = [f"{1000 * n / len(some):9.0f}" if n else f"{'·':>9}" for n in each]
        wrong = 1000 * sum(bool(case.verdicts) for case in some) / len(some)
        lines.append(f"{name:{width}} {len(some):6d} {wrong:6.0f} " + " ".join(numbers))
    statuses = Counter(type(c.answer).__name__ if isinstance(c.answer, Exception) else c.answer.status.name for c in cases)
    ambiguous = Counter(case.ambiguous for case in cases if case.ambiguous)
    lines += [f"outcomes: {dict(statuses)}", f"nothing said of optimum or reach: {dict(ambiguous)}"]
    return "\n".join(lines)


def snippet(case: Case) -> str:
    """The problem as Python."""
    problem = case.problem
    given = [f"actions=ifonly.Actions(**{pformat(problem.actions, width=150, sort_dicts=False)})"] if problem.actions else []
    given += [f"cost=ifonly.Cost(**{problem.cost!r})"] if problem.cost else []
    given += [f"max_changes={problem.max_changes}"] if problem.max_changes is not None else []
    more = "".join(f",\n    {text}" for text in given)
    return (
        f"model = ifonly.Model({problem.A.tolist()!r}, {problem.b.tolist()!r})\n"
        f"cf = ifonly.invert(model, {problem.x.tolist()!r}, {problem.target}, {problem.goal}={problem.want!r}{more})\n"
        f"# {'; '.join(map(str, case.verdicts)) or 'nothing wrong'}\n"
        f"# truth: {case.truth}"
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="one or more; by default all")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT)
    parser.add_argument("--write", type=Path, help="a file for the wrong cases")
    parser.add_argument("--examples", type=int, default=3, help="of each kind, by name")
    parser.add_argument("--case", help="a name of a report, such as 'decades 12'")
    parser.add_argument("--shrink", metavar="KIND", help="with --case: a smaller problem with the same mistake")
    given = parser.parse_args()
    if given.case:
        name, _, number = given.case.removesuffix(f" (seed {given.seed})").rpartition(" ")
        problem = make(name, int(number), given.seed)
        problem = shrink(problem, given.shrink, time_limit=given.time_limit) if given.shrink else problem
        print(snippet(judge(problem, time_limit=given.time_limit)))
        return
    start = time.perf_counter()
    cases = []
    for case in run(given.family or list(FAMILIES), given.count, given.seed, given.time_limit):
        cases.append(case)
        for v in case.verdicts:  # now: a long run may be stopped
            print(f"{case.problem.name}: {v}", file=sys.stderr, flush=True)
    print(table(cases))
    for kind in KINDS:
        wrong = [(case, v) for case in cases for v in case.verdicts if v.kind == kind]
        if wrong:
            print(f"\n{kind} ({KINDS[kind]}): {len(wrong)}")
        for case, v in sorted(wrong, key=lambda pair: pair[0].problem.A.size)[: given.examples]:
            print(f"  {case.problem.name} [{case.problem.goal}]: {v.text[:220]}")
    print(f"\n{time.perf_counter() - start:.0f} s")
    if given.write:
        given.write.write_text(json.dumps([case.to_json() for case in cases if case.verdicts]), encoding="utf-8")


if __name__ == "__main__":
    main()
