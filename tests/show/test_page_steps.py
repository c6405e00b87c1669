"""The page within limits: fewer answers where searches are long, and no word on them that is not proved."""

import json
import re

import numpy as np
import pytest

import ifonly
from ifonly import Actions, Model, Status
from ifonly.show.page import html, slider
from ifonly.show.table import certificate_words


@pytest.fixture(scope="module")
def ruled():
    """Whole numbers and two linear rules, so that a search to the last digit takes a while."""
    rng, D = np.random.default_rng(3), 40
    names, w = [f"f{i}" for i in range(D)], 0.15 * rng.normal(size=D)
    x = np.round(rng.uniform(0, 10, size=D))
    coefficients = {names[i]: float(i % 3 - 1) for i in range(10, 25)}
    held = sum(c * x[int(name[1:])] for name, c in coefficients.items())
    rules = [(dict.fromkeys(names[:10], 1.0), "<=", x[:10].sum() + 2), (coefficients, ">=", held - 3)]
    actions = Actions(integer=names[:30], bounds=dict.fromkeys(names, (0, 20)), linear=rules)
    model = Model(np.vstack([np.zeros(D), w]), [0.0, -w @ x - 4], feature_names=names)
    return ifonly.invert(model, x, 1, prob=0.8, actions=actions, gap=0.05)


def page_data(answer):
    return json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', html(answer), re.S)[1])


def test_a_page_with_rules_has_a_few_answers(ruled):
    data = page_data(ruled)
    wanted = [step["wanted"] for step in data["steps"]]
    assert wanted == sorted(wanted)
    assert 3 <= len(wanted) <= 1 + next(most for nodes, most in slider.ANSWERS if ruled.n_nodes >= nodes)
    assert data["steps"][data["start"]]["wanted"] == 0.8
    for step in data["steps"]:
        assert step["p"][data["k"]] >= step["wanted"]


@pytest.mark.seconds
def test_what_is_not_the_least_is_not_called_so(ruled):
    """An answer that was stopped at a gap says the bound that is proved: one that a search to the end does not go below."""
    assert ruled.status is Status.CONVERGED
    words = certificate_words(ruled)
    assert "no allowed change has one below" in words
    assert "No smaller change" not in page_data(ruled)["steps"][page_data(ruled)["start"]]["proof"]
    best = ifonly.invert(ruled.model, ruled.source, 1, prob=0.8, actions=ruled.within.conditions.actions)
    assert best.status is Status.EXACT
    assert ruled.bound <= best.cost <= ruled.cost
    assert certificate_words(best).startswith("Of all allowed changes none has a lower cost")


def test_a_page_of_an_answer_whose_probability_underflows_shows_that_answer():
    """A slider of probabilities has no place for it, and a page that solves for itself would show another."""
    cf = ifonly.invert(Model([[1000.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), [50.0, 0.0], 1, lam=1e3)
    assert cf.proba[1] == 0.0
    data = page_data(cf)
    said = (piece[0] if isinstance(piece, list) else piece for piece in data["steps"][data["start"]]["said"])
    assert "at most 49 instead of 50" in "".join(said)
    assert certificate_words(cf).startswith("Proved: no allowed change has a lower objective than")


def test_searches_that_do_not_end_are_left_out(ruled, monkeypatch):
    monkeypatch.setattr(slider, "TIMES", 0)
    monkeypatch.setattr(slider, "NODES", 1)
    monkeypatch.setattr(slider, "GAP", 0.0)
    data = page_data(ruled)
    assert 1 < len(data["steps"]) < len(range(50, 100))
    for step in data["steps"]:
        assert step["proof"].startswith("No smaller change exists.") == (step["wanted"] != 0.8)


def test_out_of_reach_is_said_wherever_it_is_met():
    model = Model.binary([1.0, 0.5], 0.0, ["no", "yes"], ["a", "b"])
    cf = ifonly.invert(model, [-2.0, 0.0], "yes", prob=0.55, actions=Actions(bounds={"a": (None, 1.0), "b": (None, 0.5)}))
    data = page_data(cf)
    reach = 1 / (1 + np.exp(-1.25))
    assert [step["wanted"] for step in data["steps"]] == [p / 100 for p in range(50, int(100 * reach) + 1)]
    assert data["beyond"].startswith(f"The best that can be reached is {100 * reach:.1f} %")


def test_early_ones_are_spread():
    values = [float(n) for n in range(50)]
    order = slider._spread(values)
    assert order[:6] == [0.0, 49.0, 32.0, 16.0, 48.0, 8.0]
    assert sorted(order) == values
    assert slider._spread([]) == []
