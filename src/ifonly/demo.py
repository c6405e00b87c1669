"""The main job in a terminal: ``python -m ifonly.demo``. Needs scikit-learn, no network and no files."""

import importlib.util
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ifonly
from ifonly.answer import Counterfactual

__all__ = ["main"]

Floats = NDArray[np.float64]

REPEATS = 200  # calls of which the median time is shown
WARM_UP = 5  # calls before them
SHADES = " ░▒▓█"
SLIGHT, STRONG = 0.1, 0.3  # changes of a pixel (black is 1) that get one mark and two


@dataclass(frozen=True)
class Case:
    """A fitted estimator and one row it never saw.

    Attributes
    ----------
    estimator : fitted scikit-learn classifier or pipeline
    x : ndarray of shape (D,)
        The source, in the estimator's units.
    names : list of str
        The features' names.

    """

    estimator: Any
    x: Floats
    names: list[str]


def main() -> None:
    """Run both examples."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # block characters, also where the terminal's default lacks them
    if importlib.util.find_spec("sklearn") is None:
        raise SystemExit('the demo needs scikit-learn: pip install "ifonly[sklearn]"')
    print(f"ifonly {ifonly.__version__}: the smallest change to an input that gives the decision you want, with a proof")
    applicant()
    digit()


# ---- 1. a table in raw units ----


def applicant() -> None:
    """A refusal, the smallest change that would have reversed it, and what that answer is worth."""
    wanted = "benign"
    case = refused_applicant()
    pipeline, x = case.estimator, case.x
    heading("1  A refused applicant")
    say("scikit-learn carries no credit data, so its breast cancer data stand in for an application:")
    say(f"{len(x)} measurements in raw units, 'malignant' plays the refusal and 'benign' the approval (K = 2).")
    say("The pipeline is StandardScaler + LogisticRegression; the row was held out when it was fitted.")
    say()
    say(f'cf = ifonly.invert(pipeline, x, "{wanted}", prob=0.8)')
    cf = one(ifonly.invert(pipeline, x, wanted, prob=0.8))
    say()
    show_decisions("pipeline", pipeline, cf, "standard deviations")
    say()
    show_changes(case, cf, rows=6)
    say()
    show_certificate(cf)
    say()
    show_times("pipeline", case, cf)


def refused_applicant() -> Case:
    """The first held-out row of the breast cancer data that the pipeline calls malignant."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data: Any = load_breast_cancer()
    labels = data.target_names[data.target]
    X, held_out, y, _ = train_test_split(data.data, labels, random_state=0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    refused = held_out[pipeline.predict(held_out) == "malignant"]
    return Case(pipeline, refused[0], [str(name) for name in data.feature_names])


def show_changes(case: Case, cf: Counterfactual, rows: int) -> None:
    """The largest changes, measured in standard deviations, as a table in the user's units."""
    scale = case.estimator[0].scale_
    order = np.argsort(-np.abs(cf.delta / scale))[:rows]
    say(f"{f'the {rows} largest of {len(scale)} changes':<28}{'from':>12}{'to':>12}{'change':>14}")
    for d in order:
        say(f"  {case.names[d]:<26}{cf.source[d]:>12.5g}{cf.x[d]:>12.5g}{signed(cf.delta[d] / scale[d]):>11} sd")


# ---- 2. a picture ----


def digit() -> None:
    """A handwritten 5, the smallest change that makes the classifier read a 6, and the whole path towards it."""
    wanted = 6
    case = handwritten(5)
    model = ifonly.as_model(case.estimator)
    heading("2  A handwritten digit")
    say(f"load_digits: {len(case.x)} pixels from 0 (white) to 1 (black), {model.n_classes} classes, LogisticRegression(C=0.1).")
    say("The image was held out. A changed pixel may leave [0, 1]: this version sets no limits on changes.")
    say()
    say(f"cf = ifonly.invert(classifier, x, {wanted}, prob=0.9)")
    cf = one(ifonly.invert(case.estimator, case.x, wanted, prob=0.9))
    say()
    show_decisions("classifier", case.estimator, cf, "pixel units (black is 1)")
    say()
    show_images(cf)
    say()
    show_certificate(cf)
    say()
    show_times("classifier", case, cf)
    say()
    show_path(model, case.x, wanted)


def handwritten(label: int) -> Case:
    """A held-out image of the given digit that the classifier reads correctly."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    data: Any = load_digits()
    X, held_out, y, truth = train_test_split(data.data / 16, data.target, random_state=0)
    classifier = LogisticRegression(C=0.1, max_iter=1000).fit(X, y)
    read = held_out[(truth == label) & (classifier.predict(held_out) == label)]
    return Case(classifier, read[2], [str(name) for name in data.feature_names])


def show_images(cf: Counterfactual) -> None:
    """Source, change and answer side by side."""
    panels = [framed("source", shaded(cf.source)), framed("change", marked(cf.delta)), framed("answer", shaded(cf.x))]
    for row in zip(*panels, strict=True):
        say("  ".join(row))
    say(f"+ darker, − lighter; one mark: by more than {SLIGHT}, two marks: by more than {STRONG}")


def framed(title: str, lines: list[str]) -> list[str]:
    """Lines of text in a frame, under a title."""
    width = len(lines[0])
    return [f"{title:^{width + 2}}", f"┌{'─' * width}┐", *(f"│{line}│" for line in lines), f"└{'─' * width}┘"]


def shaded(image: Floats) -> list[str]:
    """An 8×8 image as lines of block characters, two columns a pixel."""
    levels = np.clip(np.rint(image * (len(SHADES) - 1)), 0, len(SHADES) - 1).astype(int).reshape(8, 8)
    return ["".join(2 * SHADES[level] for level in row) for row in levels]


def marked(change: Floats) -> list[str]:
    """An 8×8 difference as lines of plus and minus signs, three columns a pixel."""

    def mark(value: float) -> str:
        return ("+" if value > 0 else "−") * ((abs(value) > SLIGHT) + (abs(value) > STRONG))

    return [" " + " ".join(f"{mark(float(value)):<2}" for value in row) + " " for row in change.reshape(8, 8)]


def show_path(model: ifonly.Model, x: Floats, wanted: Any) -> None:
    """Five of the answers along λ."""
    k = model.class_index(wanted)
    start = perf_counter()
    path = ifonly.path(model, x, wanted)
    seconds = perf_counter() - start
    say(f"path = ifonly.path(classifier, x, {wanted})")
    say(f"{len(path)} exact answers from λ = {path.lam[0]:g} to {path.lam[-1]:g} in {in_words(seconds)}; five of them:")
    say(f"{'λ':>12}{f'p({wanted})':>12}{'distance':>12}")
    for lam in (10.0, 1.0, 0.1, 0.01, 0.001):
        i = int(np.abs(np.log(path.lam / lam)).argmin())
        p = path.proba[i, k]
        say(f"{path.lam[i]:>12.3g}{p:>12.4f}{path.distance[i]:>12.4f}   {'█' * round(30 * p)}")
    say("λ multiplies the squared distance: the larger it is, the closer the answer stays to the source.")


# ---- shared ----


def show_decisions(name: str, estimator: Any, cf: Counterfactual, unit: str) -> None:
    """What the user's own estimator says before and after; the last probability in all its digits."""
    k = list(estimator.classes_).index(cf.target)
    for when, x in (("before", cf.source), ("after", cf.x)):
        decision, p = estimator.predict(x[None])[0], float(estimator.predict_proba(x[None])[0, k])
        digits = f"{p:.6f}" if when == "before" else f"{p!r}, so at least {cf.prob}"
        say(f"{f'{name}.predict {when}':<28}{decision!s:<12}p({cf.target}) = {digits}")
    say(f"{'distance':<28}{cf.distance:.6f} {unit}")


def show_certificate(cf: Counterfactual) -> None:
    """The proof that comes with an answer, recomputed on the spot."""
    fresh = cf.verify()  # raises where anything the answer claims does not hold
    say(f"certificate, for E = (λ/2)·distance² − ln p({cf.target}) with the λ = {cf.lam:.4g} that was found")
    say(f"  cf.gap          {cf.gap:.1e}   no input has an E lower than the answer's by more than this")
    say(f"  cf.error_bound  {cf.error_bound:.1e}   the exact minimiser of E is no further from the answer than this")
    say(f"  cf.verify()     {fresh.gap:.1e}   the gap again, from the weights and the source alone: it agrees")


def show_times(name: str, case: Case, cf: Counterfactual) -> None:
    """One inversion in either form next to two predictions, in the same run."""
    model, row = ifonly.as_model(case.estimator), case.x[None]

    def predict_twice() -> None:
        case.estimator.predict_proba(row)
        case.estimator.predict_proba(row)

    say(f"time, median of {REPEATS} warm calls in this run")
    for what, call in (
        (f"invert(…, prob={cf.prob}), a search for λ", lambda: one(ifonly.invert(model, case.x, cf.target, prob=cf.prob)).x),
        (f"invert(…, lam={cf.lam:.4g}), λ given", lambda: one(ifonly.invert(model, case.x, cf.target, lam=cf.lam)).x),
        (f"{name}.predict_proba, two calls", predict_twice),
    ):
        say(f"  {what:<40}{in_words(seconds_of(call)):>10}")


def seconds_of(call: Callable[[], Any]) -> float:
    """The median time of a call."""
    times: list[float] = []
    for _ in range(WARM_UP + REPEATS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return median(times[WARM_UP:])


def in_words(seconds: float) -> str:
    """A duration with a unit that suits it."""
    return f"{1e6 * seconds:.0f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


def signed(value: float) -> str:
    """A number with its sign, a true minus included."""
    return f"{value:+.2f}".replace("-", "−")


def one(answer: Any) -> Counterfactual:
    """The answer for one source, as what it is to the type checker."""
    assert isinstance(answer, Counterfactual)
    return answer


def heading(text: str) -> None:
    """A title with a line under it."""
    print(f"\n{text}\n{'─' * len(text)}")


def say(text: str = "") -> None:
    """One indented line."""
    print(f"   {text}".rstrip())


if __name__ == "__main__":
    main()
