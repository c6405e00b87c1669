"""``make bench-compare``: two results side by side.

What counts is the last column, the ratio of the ratios to the floor: each run is measured in units of its own machine's
floor, so below 1 means that B is closer to the floor than A.
"""

import argparse
import json
from pathlib import Path

import report


def ratios(result: dict) -> dict[tuple, tuple[float, float]]:
    """µs and ratio to the floor of every contender of every row."""
    return {
        (row["work"], row["case"], row["threads"], name): (us, us / row["us"]["floor"])
        for row in result["rows"]
        for name, us in row["us"].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs=2, type=Path, metavar="RESULT.json")
    both = [json.loads(file.read_text()) for file in parser.parse_args().files]
    for name, result in zip("AB", both, strict=True):
        about = result["machine"]
        print(f"{name}: {about['cpu']}, {about['cores']} cores, commit {about['commit']}, {about['date']}")
    a, b = map(ratios, both)
    body = [[*map(str, key), *(f"{value:.3g}" for value in (*a[key], *b[key], b[key][1] / a[key][1]))] for key in a if key in b]
    head = ["work", "classifier", "threads", "contender", "A µs", "A/floor", "B µs", "B/floor", "B/A"]
    print(report.aligned(report.table(head, body)))


if __name__ == "__main__":
    main()
