"""Pictures: their data are recomputed here, and each is drawn, on new axes and on given ones."""

import re
import runpy
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from helpers.data import DOCS

import ifonly
from ifonly import Actions, Cost, InputError, Model, invert, path

mpl.use("Agg")
import matplotlib.pyplot as plt

RNG = np.random.default_rng(5)
NAMES = [f"feature {i}" for i in range(16)]
MODEL = Model(RNG.normal(size=(4, 16)), RNG.normal(size=4), ["w", "x", "y", "z"], NAMES)
TWO = Model.binary(RNG.normal(size=16), 0.1, ["no", "yes"], NAMES)
X = RNG.normal(size=16)
ROWS = RNG.normal(size=(30, 16))


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def one(**options):
    return invert(MODEL, X, "other", **({"prob": 0.8} | options))


PICTURES = {
    "changes": lambda: one().picture(),
    "changes, two classes": lambda: invert(TWO, X, "other", prob=0.9).picture(),
    "few changes": lambda: one(cost=Cost(l1=0.5)).picture(),
    "image": lambda: one().picture("image", shape=(4, 4)),
    "image in colour": lambda: invert(Model(RNG.normal(size=(3, 48)), np.zeros(3)), RNG.normal(size=48)).picture(
        "image", shape=(4, 4, 3)
    ),
    "convergence": lambda: invert(MODEL, X, "w", lam=0.01, start="source").picture("convergence"),
    "heat map": lambda: invert(MODEL, ROWS, "other", prob=0.8).picture(),
    "heat map, targets": lambda: invert(MODEL, ROWS, "all", prob=0.8).picture(by="target"),
    "images of all classes": lambda: invert(MODEL, X, "all").picture("images", shape=(4, 4)),
    "twelve images": lambda: invert(MODEL, ROWS, "other").picture(shape=(4, 4), n=12),
    "images in colour": lambda: invert(Model(RNG.normal(size=(3, 24)), np.zeros(3)), RNG.normal(size=24), "all").picture(
        shape=(4, 2, 3)
    ),
    "curve": lambda: path(MODEL, X, "w").picture(),
    "features": lambda: path(MODEL, X, "w").picture("features"),
    "strip": lambda: path(MODEL, X, "w").picture("strip", shape=(4, 4)),
    "strip within limits": lambda: path(MODEL, X, "w", lams=[1.0, 0.1], actions=Actions(bounds=(-3, 3))).picture("strip", n=3),
}


@pytest.mark.seconds
@pytest.mark.parametrize("case", PICTURES)
def test_every_picture_is_drawn_on_axes_of_its_own_or_given(case):
    picture = PICTURES[case]()
    own = picture.plot()
    own.figure.canvas.draw()
    width, height = own.figure.get_size_inches()
    assert 5 <= width <= 7
    assert 0.5 <= height <= 8
    figure, given = plt.subplots()
    assert picture.plot(given) is given
    figure.canvas.draw()


@pytest.mark.parametrize("case", PICTURES)
def test_every_text_is_large_enough_and_on_the_figure(case):
    """At 600 pixels' width: no text below 8 points of a figure 6 inches wide, and none cut off."""
    figure = PICTURES[case]().plot().figure
    figure.canvas.draw()
    box = figure.bbox
    seen = [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text().strip()]
    assert seen
    for text in seen:
        assert text.get_fontsize() >= 8, text
        extent = text.get_window_extent()
        if (
            extent.width
            and text.axes is not None
            and text not in [t for axis in (text.axes.xaxis, text.axes.yaxis) for t in axis.get_ticklabels()]
        ):
            assert extent.x0 >= box.x0 - 2, text
            assert extent.x1 <= box.x1 + 2, text


LONG_NAMES = [f"average_monthly_outstanding_balance_of_the_{i}_account_in_euro" for i in range(16)]
LONG_LABELS = [f"refused_by_the_automatic_procedure_for_reason_{i}_of_the_house" for i in range(4)]
LONG = Model(MODEL.A, MODEL.b, LONG_LABELS, LONG_NAMES)
LONG_PICTURES = {
    "changes": lambda: invert(LONG, 1e5 * X, "other", prob=0.8).picture(),
    "heat map": lambda: invert(LONG, ROWS, "other", prob=0.8).picture(),
    "heat map, one target": lambda: invert(LONG, ROWS, LONG_LABELS[1], prob=0.8).picture(),
    "heat map, targets": lambda: invert(LONG, ROWS, "all", prob=0.8).picture(by="target"),
    "features": lambda: path(LONG, X, LONG_LABELS[2]).picture("features"),
    "curve": lambda: path(LONG, X, LONG_LABELS[2]).picture(),
    "strip": lambda: path(LONG, X, LONG_LABELS[2]).picture("strip"),
    "image": lambda: invert(LONG, X, LONG_LABELS[2], prob=0.3).picture("image"),
    "images": lambda: invert(LONG, X, "all").picture(shape=(4, 4)),
}


@pytest.mark.parametrize("case", LONG_PICTURES)
def test_long_names_stay_apart_and_on_the_figure(case):
    figure = LONG_PICTURES[case]().plot().figure
    figure.canvas.draw()
    seen = [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text().strip()]
    for text in seen:
        if re.fullmatch(r"[−\d.]+|\$.*\$", text.get_text()):
            continue  # a number at a tick, which may be beyond the end of its axis and is not drawn then
        extent = text.get_window_extent()
        assert extent.x0 >= -2, text
        assert extent.y0 >= -2, text
        assert extent.x1 <= figure.bbox.x1 + 2, text
        assert extent.y1 <= figure.bbox.y1 + 2, text
    names = [text.get_text() for text in seen if "_account" in text.get_text()]
    assert len({name.split("\n")[0] for name in names}) == len(names)
    assert all("…" in name for name in names)
    assert len(names) >= {"changes": 8, "heat map": 16, "heat map, targets": 16, "features": 8}.get(case, 0)


# ---- the data ----


@pytest.mark.parametrize("model", [TWO, MODEL], ids=["two classes", "four"])
def test_the_steps_of_a_waterfall_add_up(model):
    for seed in range(10):
        x = np.random.default_rng(seed).normal(size=16) * 5
        cf = invert(model, x, "other", prob=0.95)
        fall = cf.picture("changes", features=5)
        k = model.class_index(cf.target)
        odds = [np.log(p[k] / (1 - p[k])) for p in (model.predict_proba(x), model.predict_proba(cf.x))]
        np.testing.assert_allclose([fall.start, fall.end], odds, rtol=1e-6)
        np.testing.assert_allclose(sum(fall.steps), fall.end - fall.start, rtol=1e-9, atol=1e-9)
        assert len(fall.steps) == 6
        assert fall.names[-1] == "11 others"
        sizes = np.abs(fall.steps[:-1])
        assert (np.diff(sizes) <= 0).all()


def test_a_step_of_two_classes_is_weight_times_change():
    cf = invert(TWO, X, "other", prob=0.9)
    k = TWO.class_index(cf.target)
    fall = cf.picture("changes", features=16)
    expected = {name: (TWO.A[k] - TWO.A[1 - k])[d] * cf.delta[d] for d, name in enumerate(NAMES)}
    for name, step in zip(fall.names, fall.steps, strict=True):
        assert step == pytest.approx(expected[name.split("  ")[0]])


def test_images_are_source_difference_and_answer():
    cf = one()
    images = cf.picture("image")
    np.testing.assert_array_equal(images.source.ravel(), X)
    np.testing.assert_array_equal(images.answer.ravel(), cf.x)
    np.testing.assert_array_equal(images.difference, images.answer - images.source)
    assert images.titles[2] == f"{cf.target} (80 %)"


def test_a_grid_has_the_nearest_of_all_classes():
    cfs = invert(MODEL, X, "all", prob=0.6)
    grid = cfs.picture(shape=(4, 4))
    assert (np.diff(grid.distance) >= 0).all()
    assert sorted(grid.labels) == ["w", "x", "y", "z"]
    for image, label, distance in zip(grid.images, grid.labels, grid.distance, strict=True):
        assert MODEL.predict_proba(image.ravel())[MODEL.class_index(label)] >= 0.6 - 1e-12
        assert np.linalg.norm(image.ravel() - X) == pytest.approx(distance)
    titles = [panel.get_title() for panel in grid.plot().child_axes]
    assert [title.split("\n")[0] for title in titles] == list(grid.labels)
    assert all(re.search(r"\ndistance [\d.]+$", title) for title in titles)
    assert len(invert(MODEL, ROWS, "other").picture(shape=(4, 4)).images) == 10


def test_a_shape_asks_for_images_wherever_there_are_some():
    assert type(one().picture(shape=(4, 4))).__name__ == "Images"
    assert type(path(MODEL, X, "w").picture(shape=(2, 8))).__name__ == "Strip"


def test_a_curve_is_the_path():
    answers = path(MODEL, X, "w")
    curve = answers.picture()
    assert (np.diff(curve.lam) > 0).all()
    np.testing.assert_array_equal(curve.proba, answers.proba[::-1, 0])
    np.testing.assert_array_equal(curve.distance, answers.distance[::-1])


def test_trajectories_are_the_features_that_move_most():
    answers = path(MODEL, X, "w")
    lines = answers.picture("features", features=3)
    most = np.abs(answers.x - X).max(axis=0)
    best = np.argsort(-most)[:3]
    assert lines.names == tuple(NAMES[d] for d in best)
    np.testing.assert_array_equal(lines.units[0], (answers.x[-1] - X)[best])
    assert lines.others == 13


def test_a_strip_goes_from_the_source_to_the_most_certain():
    answers = path(MODEL, X, "w")
    strip = answers.picture("strip", n=5)
    np.testing.assert_array_equal(strip.images[0].ravel(), X)
    assert (np.diff(strip.proba) >= 0).all()
    for image, p in zip(strip.images, strip.proba, strict=True):
        assert MODEL.predict_proba(image.ravel())[0] == pytest.approx(p, abs=1e-9)


def test_a_heat_map_has_the_features_that_move_most():
    rows = np.vstack([ROWS, np.full(16, np.nan)])
    cfs = invert(MODEL, rows, "other", prob=0.8)
    found = cfs.picture(features=4)
    size = np.square(cfs.delta[:-1]).sum(axis=0)
    best = np.argsort(-size)[:4]
    assert found.names == tuple(NAMES[d] for d in best)
    assert found.units.shape == (4, 30)
    assert sum(found.counts) == 30
    np.testing.assert_allclose(np.sort(found.units[0]), np.sort(cfs.delta[:-1, best[0]]))
    means = cfs.picture(by="target", features=4)
    for column, label in enumerate(means.labels):
        mine = np.array([str(t) == label for t in cfs.target[:-1]])
        np.testing.assert_allclose(means.units[:, column], cfs.delta[:-1][mine][:, best].mean(axis=0))


def test_convergence_is_the_history():
    cf = invert(MODEL, X, "w", lam=0.01, start="source")
    found = cf.picture("convergence")
    assert len(found.grad_norm) == cf.n_iter
    assert found.grad_norm[0] == pytest.approx(np.linalg.norm(MODEL.gradient(X, X, "w", 0.01)))
    assert found.bound == cf.grad_norm


# ---- what cannot be drawn ----

REFUSED = {
    "kind": (lambda: one().plot("pie"), "the kinds of pictures are 'changes', 'image', 'convergence'; got 'pie'"),
    "kind of many": (lambda: invert(MODEL, ROWS).plot("changes"), "the kinds of pictures are 'heat map', 'images'"),
    "kind of path": (lambda: path(MODEL, X).plot("changes"), "the kinds of pictures are 'curve', 'features', 'strip'"),
    "shape": (lambda: one().plot("image", shape=(28, 28)), r"shape must have 16 values in all, .*; got \(28, 28\)"),
    "shape of many": (lambda: invert(MODEL, ROWS).plot(shape=(3, 3)), r"shape must have 16 values in all, .*; got \(3, 3\)"),
    "shape of path": (
        lambda: path(MODEL, X).plot(shape=16),
        r"shape must be \(height, width\) or \(height, width, 3\); got 16",
    ),
    "four channels": (lambda: one().plot(shape=(2, 2, 4)), r"shape must be \(height, width\) or"),
    "words": (lambda: one().plot(shape="4x4"), r"shape must be \(height, width\) or .*; got '4x4'"),
    "no pixels": (lambda: one().plot(shape=(-4, -4)), r"shape must be \(height, width\) or .*; got \(-4, -4\)"),
    "no square": (lambda: invert(Model(np.eye(3), np.zeros(3)), [1, 0, 0], 1).plot("image"), "3 pixels are no square"),
    "shape of changes": (
        lambda: one().plot("changes", shape=(4, 4)),
        "a picture of the kind 'changes' has no option 'shape'; it is for 'image'",
    ),
    "an option": (lambda: one().plot(colour="red"), "'changes' has no option 'colour'; it has features"),
    "no history": (lambda: invert(TWO, X, "other", lam=1.0).plot("convergence"), "two classes have a closed form"),
    "no answer": (lambda: invert(MODEL, [[np.nan] * 16])[0].plot(), "there is no answer to draw"),
    "no answers": (lambda: invert(MODEL, [[np.nan] * 16]).plot(), "no row was solved"),
    "by": (lambda: invert(MODEL, ROWS).plot(by="column"), 'by must be "row" or "target"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_says_why(case):
    make, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        make()


def test_data_need_no_matplotlib_and_drawing_names_the_extra():
    code = (
        "import sys\n"
        "sys.modules['matplotlib'] = sys.modules['matplotlib.pyplot'] = None\n"
        "import ifonly\n"
        "picture = ifonly.invert(ifonly.Model.binary([1.0, 2.0], 0.0), [-1.0, 0.0], 1).picture()\n"
        "try:\n    picture.plot()\n"
        "except ImportError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == 'pictures need matplotlib: pip install "ifonly[plot]"\n'


# ---- the gallery ----


def test_the_gallery_shows_pictures_that_are_there_and_small():
    gallery = runpy.run_path(str(DOCS / "gallery.py"))
    shown = [picture for _, picture in gallery["blocks"]() if picture]
    assert len(shown) >= 9
    assert sorted(shown) == sorted(f"gallery/{file.name}" for file in (DOCS / "gallery").glob("*.png"))
    assert set(shown) == set(re.findall(r"\((gallery/[^)]+)\)", (DOCS / "gallery.md").read_text(encoding="utf-8")))
    for picture in shown:
        assert (DOCS / picture).stat().st_size < 100_000


def test_the_code_of_the_gallery_runs():
    pytest.importorskip("sklearn")
    gallery, names = runpy.run_path(str(DOCS / "gallery.py")), {}
    for code, picture in gallery["blocks"]():
        before = set(plt.get_fignums())
        exec(code, names)
        assert bool(set(plt.get_fignums()) - before) is bool(picture)
    assert isinstance(names["cf"], ifonly.Counterfactual)


@pytest.mark.parametrize("lams", [None, [1.0]], ids=["many", "one"])
def test_both_pictures_of_a_path_run_from_the_source_outwards(lams):
    answers = path(MODEL, X, "w", lams=lams)
    curve, features = (answers.plot(kind) for kind in ("curve", "features"))
    assert curve.get_xlabel() == features.get_xlabel() == "λ, falling from the source outwards"
    if lams is None:
        assert curve.get_xlim() == features.get_xlim() == (answers.lam.max(), answers.lam.min())
