"""The claims of the paper's section 5, conclusion and appendices: what it says, what was measured, and whether that agrees.

Each claim reads result files and judges by a rule that stands beside it, so that the verdict follows the numbers.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments import figure4, figure5, figure6, store
from experiments.contest import TOL
from experiments.datasets import BINARY, HUNDRED, SOFTMAX

YES, PARTLY, NO = "holds", "holds in part", "does not hold"


class Claim(NamedTuple):
    """One line of the page's table."""

    where: str
    says: str
    measured: str
    verdict: str


@cache
def read(name: str) -> pd.DataFrame:
    """A result file, once."""
    return store.read(name)


def verdict(each: Iterable[bool]) -> str:
    """Over data sets: all, some or none."""
    each = list(each)
    return YES if all(each) else PARTLY if any(each) else NO


def listed(values: dict[str, float], form: Callable[[float], str]) -> str:
    """``MNIST 9, RCV1 10``."""
    return ", ".join(f"{name} {form(value)}" for name, value in values.items())


def times(value: float) -> str:
    """A ratio, to two digits."""
    return f"{value:.1f} ×" if value < 10 else f"{value:.0f} ×"


def duration(seconds: float) -> str:
    """Seconds in a readable unit, to three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


def median(name: str, column: str, method: str, *, by: str = "method") -> dict[str, float]:
    """Median over the problems of a file, per data set."""
    frame = read(name)
    return frame[frame[by] == method].groupby("dataset")[column].median().to_dict()


def ratio(name: str, method: str, base: str = "Newton") -> dict[str, float]:
    """Median over problems of seconds(method)/seconds(base), per data set that has both."""
    frame = read(name).drop_duplicates(["dataset", "problem", "method"])
    table = frame.pivot_table(index=["dataset", "problem"], columns="method", values="seconds")
    both = (table[method] / table[base]).dropna().groupby("dataset").median()
    return {dataset: float(both[dataset]) for dataset in (*SOFTMAX, HUNDRED, *BINARY) if dataset in both}


def of(names: Iterable[str], values: dict[str, float]) -> dict[str, float]:
    """Only these data sets, in this order."""
    return {name: values[name] for name in names if name in values}


def fastest() -> Claim:
    """Newton against the best of the paper's other methods; by far is taken as 3 times."""
    rest = {method: of(SOFTMAX, ratio("figure1", method)) for method in ("GD", "CG", "BFGS", "L-BFGS")}
    next_best = {name: min(values[name] for values in rest.values() if name in values) for name in SOFTMAX}
    return Claim(
        "5.1, fig. 1",
        "Newton is the fastest of its methods, by far",
        f"the next best takes {listed(next_best, times)}",
        YES if min(next_best.values()) >= 3 else PARTLY if min(next_best.values()) > 1 else NO,
    )


def ten_iterations() -> Claim:
    """Iterations of Newton, figure 1."""
    found = of(SOFTMAX, median("figure1", "n_iter", "Newton"))
    frame = read("figure1")
    most = frame[(frame.method == "Newton") & frame.dataset.isin(SOFTMAX)].n_iter.max()
    return Claim(
        "5.1, fig. 1",
        "Newton takes around 10 iterations",
        f"median {listed(found, '{:g}'.format)}; at most {most}",
        verdict(7 <= value <= 13 for value in found.values()),
    )


def milliseconds() -> Claim:
    """Runtime of Newton, figure 1."""
    frame = read("figure1")
    rows = frame[(frame.method == "Newton") & frame.dataset.isin(SOFTMAX)].seconds
    return Claim(
        "5.1, fig. 1",
        "Newton takes between 1 and 100 ms",
        f"{duration(rows.min())} to {duration(rows.max())}",
        YES if rows.max() <= 0.1 else PARTLY,
    )


def ten_times() -> Claim:
    """CG and L-BFGS against Newton: about 10 is taken as 5 to 20."""
    found = {method: of(SOFTMAX, ratio("figure1", method)) for method in ("CG", "L-BFGS")}
    measured = "; ".join(f"{method}: {listed(values, times)}" for method, values in found.items())
    says = "CG and L-BFGS take about 10 times longer than Newton"
    return Claim("5.1, fig. 1", says, measured, verdict(5 <= r <= 20 for values in found.values() for r in values.values()))


def descent() -> Claim:
    """GD against Newton and against CG: far slower than either is taken as 2 times CG and 5 times Newton."""
    newton, cg = (of(SOFTMAX, ratio("figure1", "GD", base)) for base in ("Newton", "CG"))
    frame = read("figure1")
    most = frame[frame.method == "GD"].n_iter.max()
    return Claim(
        "5.1, fig. 1",
        "gradient descent is far slower still, and alone reaches 1000 iterations, occasionally",
        f"{listed(newton, times)} Newton's time ({listed(cg, times)} CG's); at most {most} iterations",
        verdict(newton[name] >= 5 and cg[name] >= 2 for name in newton),
    )


def dense() -> Claim:
    """BFGS against Newton."""
    found = of((*SOFTMAX, HUNDRED), ratio("figure1", "BFGS"))
    n_iter = of(found, median("figure1", "n_iter", "BFGS"))
    left_out = ", ".join(name for name in SOFTMAX if name not in found)
    return Claim(
        "5.1, fig. 1",
        "BFGS is for small and medium D only, and very slow even there, though it does not need many iterations",
        f"{listed(found, times)} Newton's time, in {listed(n_iter, '{:g}'.format)} iterations; too large for {left_out}",
        verdict(value >= 10 for value in found.values()),
    )


def precision() -> Claim:
    """How far Newton's answers are from the best that anyone found; ‖∇E‖²/(2λ) allows 5e-14 at λ = 0.001."""
    frame = read("figure1")
    lowest = frame.groupby(["dataset", "problem"]).E.min()
    rows = frame[frame.method == "Newton"].set_index(["dataset", "problem"])
    worst = float((rows.E - lowest).max())
    return Claim(
        "5, conclusion",
        "Newton reaches practically machine precision",
        f"E − E* at most {worst:.0e}, ‖∇E‖ at most {rows.grad_norm.max():.1e}, over all {len(rows)} problems",
        YES if worst <= TOL**2 / (2 * rows.lam.min()) and rows.grad_norm.max() <= TOL else NO,
    )


def digits() -> Claim:
    """Newton's last iterates in table 2: correct digits from one to the next, above rounding.

    In the paper's own table they go 4.8 → 7.5 → 12.7; so doubling is taken as a last factor of 1.6 or more.
    """
    frame = read("table2")
    gaps = frame[frame.method == "Newton"].sort_values("iterate").gap.to_numpy()
    found = -np.log10(gaps[(gaps > 1e-13) & (gaps < 0.1)])
    growth = found[1:] / found[:-1]
    return Claim(
        "5.1, table 2",
        "the last iterates of Newton double the number of correct digits, to the precision of the machine",
        f"on RCV1: {' → '.join(f'{value:.1f}' for value in found)} → all",
        YES if len(growth) and growth[-1] >= 1.6 else NO,
    )


def linear() -> Claim:
    """Iterations to E − E* < 1e-10, table 2."""
    frame = read("table2")
    found = {method: int((rows.gap >= 1e-10).sum()) for method, rows in frame.groupby("method")}
    rest = {method: found[method] for method in ("L-BFGS", "CG", "GD")}
    return Claim(
        "app. B, table 2",
        "methods that converge linearly need far more iterations for the same accuracy",
        f"iterations to E − E* < 1e-10 on RCV1: Newton {found['Newton']}, {listed(rest, '{:d}'.format)}",
        YES if min(rest.values()) > 3 * found["Newton"] else NO,
    )


def first_step() -> Claim:
    """Shares of Newton's iterations, figure 3."""
    frame = read("figure3")
    rows = frame[frame.method == "Newton"]
    total = rows.groupby("dataset").iterations.sum()
    one = of(SOFTMAX, (rows[rows.trials == 1].groupby("dataset").iterations.sum() / total).to_dict())
    more = of(SOFTMAX, (rows[rows.trials > 5].groupby("dataset").iterations.sum() / total).fillna(0).to_dict())
    return Claim(
        "5.1, fig. 3",
        "the first step is accepted most times, and rarely are more than 5 trials needed",
        f"first step: {listed(one, '{:.0%}'.format)}; more than 5: {listed(more, '{:.0%}'.format)}",
        verdict(one[name] > 0.5 and more[name] < 0.1 for name in one),
    )


def difficulty() -> Claim:
    """Mean iterations at the ends of the range of λ and at the worst λ, figure 4."""
    frame = read("figure4")
    mean = frame[frame.method == figure4.COLD].groupby(["dataset", "lam"]).n_iter.mean()
    lines, good = [], []
    for name in SOFTMAX:
        large, small, worst = mean[name].iloc[-1], mean[name].iloc[0], mean[name].max()
        lines.append(f"{name} {large:.1f}, {small:.1f}, {worst:.1f} (at {mean[name].idxmax():.1g})")
        good.append(large < small < worst)
    return Claim(
        "5.1, fig. 4",
        "problems with λ ≫ 1 are easiest, followed by λ ≪ 1",
        f"mean iterations at λ = 100, at 1e-4, and most: {'; '.join(lines)}",
        verdict(good),
    )


def warm_start() -> Claim:
    """Paths of 100 λ: about 5 is taken as 3 to 8."""
    found = of(SOFTMAX, ratio("figure4", figure4.COLD, figure4.WARM))
    n_iter = of(SOFTMAX, read("figure4").query("method == @figure4.WARM").groupby("dataset").n_iter.mean().to_dict())
    return Claim(
        "5.1, fig. 4",
        "a path with warm start is about 5 × faster, with very few iterations for each λ",
        f"{listed(found, times)} faster; {listed(n_iter, '{:.1f}'.format)} iterations per λ",
        verdict(3 <= value <= 8 for value in found.values()),
    )


def closed_form() -> Claim:
    """K = 2: the closed form against Newton."""
    bare, ours, batch = (ratio("logistic", "Newton", base) for base in ("closed form, bare", "ifonly", "ifonly, batch"))
    best = {name: max(bare[name], ours[name], batch[name]) for name in bare}
    return Claim(
        "5.2",
        "the closed form for K = 2 is about 100 × faster than Newton",
        f"bare: {listed(bare, times)}; `ifonly`, one call: {listed(ours, times)}; in a batch: {listed(batch, times)}",
        verdict(value >= 80 for value in best.values()),
    )


def one_second() -> Claim:
    """Runtime at D > 1e5."""
    frame = read("figure1")
    rows = frame[(frame.method == "Newton") & (frame.dataset == "DeepFeat320")].seconds
    two = read("logistic").query("method == 'closed form, bare' and dataset == 'DeepFeat320 K=2'").seconds
    return Claim(
        "conclusion",
        "over 10⁵ features and tens of classes in under one second",
        f"DeepFeat320 (D = 128 000): at most {duration(rows.max())}; K = 2 in closed form {duration(two.max())}",
        YES if max(rows.max(), two.max()) < 1 else NO,
    )


def reduced() -> Claim:
    """The D-dimensional problem is a K-dimensional one: both Newton methods make the same iterates."""
    frame = read("agreement")
    worst = frame.loc[frame.deviation.idxmax()]
    within = (frame.deviation <= 1e-9).sum()
    last = frame.deviation_at_the_end.max()
    return Claim(
        "conclusion",
        "the D-dimensional problem is essentially a K-dimensional one",
        f"Newton in class space and in D dimensions, from x̄: E agrees to 1e-9 in every iteration on {within} of {len(frame)} "
        f"problems, at worst to {worst.deviation:.0e} ({worst.dataset}); at the end to {last:.0e}",
        YES if last < 1e-12 else NO,
    )


def descent_searches() -> Claim:
    """Figure 5: iterations to ‖∇E‖ ≤ 1e-7."""
    last = read("figure5").groupby("method").last()
    found = {name: f"{last.n_iterates[name] - 1} iterations (‖∇E‖ = {last.grad_norm[name]:.0e})" for name in figure5.SEARCHES}
    wolfe, *rest = (last.grad_norm[name] <= figure5.TOL for name in figure5.SEARCHES)
    return Claim(
        "app. C, fig. 5",
        "gradient descent is best with a Wolfe line search: within 200 iterations, where the others need more than 1000",
        "; ".join(f"{name.removeprefix('GD, ')} {text}" for name, text in found.items()),
        YES if wolfe and last.n_iterates["GD, Wolfe"] <= 201 and not any(rest) else PARTLY if wolfe else NO,
    )


def newton_searches_iterations() -> Claim:
    """Figure 6: mean iterations saved by Wolfe."""
    frame = read("figure6")
    table = frame.pivot_table(index=["dataset", "problem"], columns="method", values="n_iter")
    saved = (table[figure6.BACKTRACKING] - table[figure6.WOLFE]).groupby("dataset").mean()
    most = {name: table[name].max() for name in (figure6.BACKTRACKING, figure6.WOLFE)}
    return Claim(
        "app. C, fig. 6",
        "with Wolfe, Newton needs consistently fewer iterations, by 1 to 2; rarely more than 14",
        f"fewer on average by {listed(of(SOFTMAX, saved.to_dict()), '{:.1f}'.format)}; at most "
        f"{most[figure6.BACKTRACKING]:.0f} (backtracking), {most[figure6.WOLFE]:.0f} (Wolfe)",
        verdict(value > 0 for value in saved),
    )


def newton_searches_time() -> Claim:
    """Figure 6: seconds of Wolfe against backtracking."""
    found = of(SOFTMAX, ratio("figure6", figure6.WOLFE, figure6.BACKTRACKING))
    return Claim(
        "app. C, figs. 6, 7",
        "with Wolfe, Newton takes about twice the time (1.5 to 5 ×), never less",
        f"{listed(found, '{:.2f} ×'.format)}",
        verdict(value >= 1.5 for value in found.values()),
    )


def hundred_newton() -> Claim:
    """Iterations of Newton on MNIST and MNIST-100: barely more is taken as at most 1.5 times as many."""
    last = read("figure8").groupby(["dataset", "method"]).n_iterates.first() - 1
    many = median("figure1", "n_iter", "Newton")
    return Claim(
        "app. D, fig. 8",
        "Newton barely needs more iterations on MNIST-100 than on MNIST, around 10",
        f"{last['MNIST', 'Newton']} and {last[HUNDRED, 'Newton']} in figure 8; medians of 50 problems "
        f"{many['MNIST']:g} and {many[HUNDRED]:g}",
        YES if many[HUNDRED] <= 1.5 * many["MNIST"] and last[HUNDRED, "Newton"] <= 1.5 * last["MNIST", "Newton"] else NO,
    )


def hundred_others() -> Claim:
    """Iterations of the others, and who is slowest."""
    last = read("figure8").groupby(["dataset", "method"]).last()
    n_iter = last.n_iterates - 1
    pairs = {m: (n_iter["MNIST", m], n_iter[HUNDRED, m]) for m in ("GD", "CG", "L-BFGS", "BFGS")}
    slowest = last.loc[HUNDRED].seconds.idxmax()
    rest = [pairs[m][1] >= 2 * pairs[m][0] for m in ("GD", "CG", "L-BFGS")]
    return Claim(
        "app. D, fig. 8",
        "there the others need twice as many iterations or more, BFGS fewer; BFGS is slowest",
        f"{', '.join(f'{m} {a} and {b}' for m, (a, b) in pairs.items())}; slowest: {slowest}",
        verdict([*rest, pairs["BFGS"][1] < pairs["BFGS"][0], slowest == "BFGS"]),
    )


CLAIMS = (
    fastest,
    ten_iterations,
    milliseconds,
    ten_times,
    descent,
    dense,
    precision,
    digits,
    linear,
    first_step,
    difficulty,
    warm_start,
    closed_form,
    one_second,
    reduced,
    descent_searches,
    newton_searches_iterations,
    newton_searches_time,
    hundred_newton,
    hundred_others,
)
