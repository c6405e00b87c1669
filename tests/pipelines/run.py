"""Random pipelines, judged: ``python -m tests.pipelines.run --seed S --count N [--number M]``; prints what is wrong."""

import argparse
from collections import Counter

from tests.pipelines.problems import cases


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="of pipelines")
    parser.add_argument("--number", type=int, help="of one pipeline, whose questions are shown")
    given = parser.parse_args()
    ended: Counter[str] = Counter()
    for number in range(given.count) if given.number is None else [given.number]:
        for case in cases(number, given.seed):
            wrong = case.wrong()
            ended["wrong" if wrong else case.ended] += 1
            if wrong or given.number is not None:
                print(case, *(wrong or ["nothing wrong"]), "", sep="\n")
    print(dict(ended))


if __name__ == "__main__":
    main()
