"""Puts the numbers of the result files into docs/paper.md: ``make paper`` ends with it.

The page has pairs of comments ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; what stands between them is made here.
"""

from collections.abc import Callable
from typing import Any

import pandas as pd

from benchmarks.report import table
from experiments import contest, figure4, figure6, table2
from experiments.baselines import METHODS
from experiments.claims import CLAIMS, duration, median, ratio, read, times
from experiments.datasets import BINARY, HUNDRED, ROOT, SOFTMAX
from experiments.store import SCRIPTS

PAGE = ROOT / "docs" / "paper.md"
EVERY = (*SOFTMAX, HUNDRED)
GOALS = dict.fromkeys(EVERY, 20) | {"MNIST": 40}

# The paper's figure 4: seconds for 100 λ with and without warm start.
PAPER_PATHS = {"MNIST": (0.021, 0.093), "DeepFeat64": (0.079, 0.296), "RCV1": (1.351, 6.749), "DeepFeat320": (1.460, 6.147)}


def about() -> str:
    """The machine, which size was run, and what else the machine did meanwhile."""
    every = [read(name).attrs for name in SCRIPTS]
    machine = every[0]["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    sizes = sorted({f"`make {one['size']}`" for one in every})
    kinds = {one["machine"]["cpu"] for one in every}
    return (
        f"{machine['cpu']}, {machine['cores']} of {machine['all cores']} cores, one thread; {machine['system']}; "
        f"{machine['blas']}; {versions}; {' and '.join(sizes)}.\n\n{quiet(every)}"
        + (f" The files come from {len(kinds)} machines: {', '.join(sorted(kinds))}." if len(kinds) > 1 else "")
    )


def quiet(every: list[dict[str, Any]]) -> str:
    """When all was measured, and how much of the machine others had meanwhile."""
    runs = sorted({one["run"] for one in every})
    when = f"All in one run, {runs[0]}" if len(runs) == 1 else f"In {len(runs)} runs: {'; '.join(runs)}"
    text = f"{when}, {sum(one['seconds'] for one in every) / 60:.0f} minutes. Load {every[0]['load before']} before and "
    text += f"{every[-1]['load after']} after, with the run's own 1."
    told = [one for one in every if one["others"]]
    if not told:
        return text
    seconds = sum(one["seconds"] for one in told)
    every_core, ours = (sum(one["others"][where] * one["seconds"] for one in told) / seconds for where in ("all", "ours"))
    return (
        f"{text} Meanwhile other processes kept {every_core:.2f} cores of the machine busy, and {ours:.2f} of what the run "
        f"could use ({max(one['others']['ours'] for one in told):.2f} in the worst of its {len(every)} parts)."
    )


def claims() -> str:
    """The claims with their verdicts."""
    return table(["where", "the paper", "measured", "verdict"], [list(claim()) for claim in CLAIMS])


def thousands(number: float) -> str:
    """With a thin gap between groups of three digits."""
    return f"{number:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def datasets() -> str:
    """Table 1."""
    body = []
    for row in read("table1").itertuples():
        known = isinstance(row.paper_name, str)
        body.append(
            [
                str(row.dataset),
                thousands(row.D),
                str(row.K),
                thousands(row.n_train),
                f"{row.train_error:.2f} / {row.test_error:.2f}",
                f"{row.paper_name}, D = {thousands(row.paper_D)}" if known else "–",
                f"{row.paper_train_error:.2f} / {row.paper_test_error:.2f}" if known else "–",
            ]
        )
    head = ["data set", "D", "K", "training rows", "train / test error, %", "in the paper", "train / test error there, %"]
    return table(head, body)


def figure1() -> str:
    """Medians over the problems, per method and data set."""
    methods = (*METHODS, contest.OURS, contest.BATCH)
    seconds = {method: median("figure1", "seconds", method) for method in methods}
    n_iter = {method: median("figure1", "n_iter", method) for method in methods}

    def cell(method: str, name: str) -> str:
        found = seconds[method].get(name)
        return "–" if found is None else f"{duration(found)}, {n_iter[method][name]:g}"

    return table(["method", *EVERY], [[method, *(cell(method, name) for name in EVERY)] for method in methods])


def goals() -> str:
    """How far below the D-space Newton both series of `ifonly` are."""
    body = []
    newton = median("figure1", "seconds", "Newton")
    found = {method: ratio("figure1", "Newton", method) for method in (contest.OURS, contest.BATCH)}
    seconds = {method: median("figure1", "seconds", method) for method in found}
    for name in EVERY:
        cells = [f"{duration(seconds[method][name])} ({times(found[method][name])})" for method in found]
        reached = [method for method in found if found[method][name] >= GOALS[name]]
        body.append([name, duration(newton[name]), *cells, f"{GOALS[name]} ×", " and ".join(reached) or "neither"])
    return table(["data set", "Newton in D", contest.OURS, contest.BATCH, "goal", "reached by"], body)


def agreement() -> str:
    """Largest deviation of E per data set."""
    body = []
    for name, rows in read("agreement").groupby("dataset", sort=False):
        within = f"{(rows.deviation <= 1e-9).sum()} of {len(rows)}"
        body.append([str(name), f"{rows.deviation.max():.1e}", within, f"{rows.deviation_at_the_end.max():.1e}"])
    return table(
        ["data set", "largest deviation in an iteration", "problems within 1e-9", "largest deviation at the end"], body
    )


def digits() -> str:
    """Table 2: some iterates of each method."""
    frame = read("table2")
    methods = [*table2.METHODS, contest.OURS]
    gaps = {method: frame[frame.method == method].set_index("iterate").gap for method in methods}
    lasts = {int(gap.index.max()) for gap in gaps.values()}
    shown = sorted({*range(1, 19), 25, 50, 100, 200, 500, 1000, *lasts} & set(range(1, max(lasts) + 1)))
    body = [[str(i), *(f"{gap[i]:.16f}" if i in gap.index else "" for gap in gaps.values())] for i in shown]
    return table(["iterate", *methods], body)


def trials() -> str:
    """Figure 3: shares."""
    body = []
    for (name, method), rows in read("figure3").groupby(["dataset", "method"], sort=False):
        total = rows.iterations.sum()
        shares = [rows[rows.trials.between(*range_)].iterations.sum() / total for range_ in ((1, 1), (2, 5), (6, 999))]
        body.append([str(name), str(method), str(total), *(f"{share:.1%}" for share in shares), str(rows.trials.max())])
    return table(["data set", "method", "iterations", "1 trial", "2 to 5", "more", "most"], body)


def paths() -> str:
    """Figure 4's table, with our path."""
    frame = read("figure4").drop_duplicates(["dataset", "problem", "method"])
    methods = (figure4.WARM, figure4.COLD, figure4.PATH, figure4.LAZY)
    body = []
    for name in SOFTMAX:
        rows = frame[frame.dataset == name]
        cells = [rows[rows.method == method].seconds for method in methods]
        paper = PAPER_PATHS[name]
        body.append(
            [
                name,
                f"{paper[0]:.3f}, {paper[1]:.3f}",
                *(f"{seconds.mean():.4f} ± {seconds.std():.4f}" for seconds in cells),
                times(cells[1].mean() / cells[0].mean()),
                times(cells[0].mean() / cells[2].mean()),
                str(rows.problem.nunique()),
            ]
        )
    head = [
        "data set",
        "paper: warm, not",
        "warm start",
        "no warm start",
        "`ifonly.path`",
        "… before x is made",
        "warm start gains",
        "`ifonly.path` gains on that",
        "problems",
    ]
    return table(head, body)


def logistic() -> str:
    """Section 5.2."""
    methods = ("Newton", "closed form, bare", contest.OURS, contest.BATCH)
    seconds = {method: median("logistic", "seconds", method) for method in methods}
    gain = {method: ratio("logistic", "Newton", method) for method in methods}
    body = [
        [name, *(duration(seconds[m][name]) + ("" if m == "Newton" else f" ({times(gain[m][name])})") for m in methods)]
        for name in BINARY
    ]
    return table(["data set", *methods], body)


def searches() -> str:
    """Figure 6: means and medians."""
    methods = (figure6.BACKTRACKING, figure6.WOLFE, contest.OURS)
    frame = read("figure6")
    mean = frame.groupby(["dataset", "method"]).n_iter.mean()
    trials = frame.assign(each=frame.trials / frame.n_iter).groupby(["dataset", "method"]).each.mean()
    seconds = {method: median("figure6", "seconds", method) for method in methods}

    def cell(name: str, method: str) -> str:
        tried = "" if pd.isna(trials[name, method]) else f", {trials[name, method]:.1f}"
        return f"{mean[name, method]:.1f}{tried}, {duration(seconds[method][name])}"

    return table(["data set", *methods], [[name, *(cell(name, method) for method in methods)] for name in SOFTMAX])


def hundred() -> str:
    """Figure 8: iterations and seconds."""
    last = read("figure8").groupby(["dataset", "method"]).last()
    names, methods = ("MNIST", HUNDRED), (*METHODS, contest.OURS)
    lams = last.lam.groupby("dataset").first()

    def cell(name: str, method: str) -> str:
        return f"{last.n_iterates[name, method] - 1}, {duration(last.seconds[name, method])}"

    head = ["method", *(f"{name}, λ = {lams[name]:g}" for name in names)]
    return table(head, [[method, *(cell(name, method) for name in names)] for method in methods])


def iterations() -> str:
    """Iterations of Newton in D and of ours, means over the problems of figure 1."""
    frame = read("figure1")
    mean = frame.groupby(["method", "dataset"]).n_iter.mean()
    most = frame.groupby(["method", "dataset"]).n_iter.max()
    methods = ("Newton", contest.OURS, contest.BATCH)
    body = [[method, *(f"{mean[method, name]:.1f} ({most[method, name]})" for name in EVERY)] for method in methods]
    text = table(["mean iterations (most)", *EVERY], body)
    worse = [name for name in EVERY if max(mean[method, name] for method in methods[1:]) > mean["Newton", name]]
    if worse:
        text += f"\n\nOn {' and '.join(worse)} the start does not help: there are more iterations than from x̄."
    return text


BLOCKS: dict[str, Callable[[], str]] = {
    "about": about,
    "claims": claims,
    "datasets": datasets,
    "figure1": figure1,
    "goals": goals,
    "iterations": iterations,
    "agreement": agreement,
    "digits": digits,
    "trials": trials,
    "paths": paths,
    "logistic": logistic,
    "searches": searches,
    "hundred": hundred,
}


def filled(text: str) -> str:
    """The page with every block made anew."""
    for name, make in BLOCKS.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if begin not in text or end not in text:
            raise ValueError(f"{PAGE.name} must have {begin} and {end}")
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{make()}\n\n{end}{rest.partition(end)[2]}"
    return text


def write() -> None:
    """Rewrite the page's blocks, if all result files are there."""
    read.cache_clear()
    PAGE.write_text(filled(PAGE.read_text()))
