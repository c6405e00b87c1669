"""Random problems without limits, judged: ``python -m tests.free.run --seed S --count N [--family F] [--case "NAME N"]``.

Prints what went wrong, by kind and by family, and examples; ``--case`` judges one problem of a report, and shows it.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.free.families import FAMILIES, make
from tests.free.verdict import KINDS, Case, judge

__all__ = ["main", "run", "table"]


def run(families: list[str], count: int, seed: int = 0) -> Iterator[Case]:
    """So many problems, family by family in turn."""
    for i in range(count):
        yield judge(make(families[i % len(families)], i // len(families), seed))


def family_of(case: Case) -> str:
    """Of a name."""
    return next(name for name in sorted(FAMILIES, key=len, reverse=True) if case.problem.name.startswith(name))


def table(cases: list[Case]) -> str:
    """Problems with a mistake of each kind, by family, and how answers ended."""
    found = Counter((name, v) for case in cases for v in {v.kind for v in case.verdicts} for name in ("all", family_of(case)))
    shown = [kind for kind in KINDS if found["all", kind]]
    lines = [f"{'':14} {'asked':>6} {'wrong':>6} " + " ".join(f"{kind[:9]:>9}" for kind in shown)]
    for name in [*FAMILIES, "all"]:
        some = [case for case in cases if name in ("all", family_of(case))]
        if some:
            numbers = [f"{found[name, kind] or '·':>9}" for kind in shown]
            lines.append(f"{name:14} {len(some):6d} {sum(bool(c.verdicts) for c in some):6d} " + " ".join(numbers))
    return "\n".join([*lines, f"answers: {dict(Counter(cf.status.name for case in cases for cf in case.answers))}"])


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="one or more; by default all")
    parser.add_argument("--examples", type=int, default=4, help="of each kind")
    parser.add_argument("--case", help="a name of a report, such as 'decades 12'")
    given = parser.parse_args()
    if given.case:
        name, _, number = given.case.removesuffix(f" (seed {given.seed})").rpartition(" ")
        case = judge(make(name, int(number), given.seed))
        print(case.problem)
        for cf in case.answers:
            print(
                f"{cf.status.name} λ={cf.lam!r} distance={cf.distance!r} x={cf.coordinates[1].tolist()} p={cf.proba.tolist()}"
            )
        print("\n".join(map(str, case.verdicts)) or "nothing wrong")
        return
    start = time.perf_counter()
    cases = []
    for case in run(given.family or list(FAMILIES), given.count, given.seed):
        cases.append(case)
        for v in case.verdicts:  # now: a long run may be stopped
            print(f"{case.problem.name}: {v}", file=sys.stderr, flush=True)
    print(table(cases))
    for kind in KINDS:
        wrong = [(case, v) for case in cases for v in case.verdicts if v.kind == kind]
        if wrong:
            print(f"\n{kind} ({KINDS[kind]}): {len(wrong)}")
        for case, v in wrong[: given.examples]:
            print(f"  {case.problem.name} [{case.problem.goal}]: {v.text[:220]}")
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
