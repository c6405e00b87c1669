"""Several constraints, a multiplier for each: the compiled search against the plain one, which shares nothing with it but the
checker; the exact answers of both are judged against enumeration elsewhere (test_cases, limits)."""

import math

import numpy as np
import pandas as pd
import pytest
from helpers.compiled import needs_compiled

from ifonly import Actions, Cost, Model, Status, invert

pytestmark = needs_compiled

SAME = 1e-9  # relative: what EXACT means, and as much for rounding in the goal


def problem(rng):
    """Whole numbers and free features, rules (one may be an equality), few changes, two to five classes."""
    K, D = int(rng.integers(2, 6)), int(rng.integers(3, 9))
    model = Model(rng.normal(size=(K, D)), rng.normal(size=K))
    x = rng.integers(0, 8, size=D).astype(float)
    whole = [d for d in range(D) if rng.random() < 0.7] or [0]
    a, b, c = rng.permutation(D)[:3].tolist()
    rules = [({a: 1.0, b: 1.0}, "<=", float(x[a] + x[b]) + float(rng.integers(0, 4)))]
    if rng.random() < 0.5:
        rules.append(({b: 1.0, c: -2.0}, ">=", float(x[b] - 2 * x[c]) - float(rng.integers(0, 6))))
    if rng.random() < 0.3:
        rules.append(({a: 1.0, c: 1.0}, "==", float(x[a] + x[c])))
    cost = Cost(scale=np.exp(rng.normal(size=D)), l1=float(rng.choice([0.0, 0.2])))
    options = {"actions": Actions(integer=whole, bounds=(0, 12), linear=rules), "cost": cost}
    options |= (
        {"prob": float(rng.choice([0.5, 0.8, 0.95]))} if rng.random() < 0.7 else {"margin": float(rng.choice([0.0, 1.5]))}
    )
    if rng.random() < 0.5:
        options["max_changes"] = int(rng.integers(1, D))
    return model, x, int(model.logits(x).argmin()), options


@pytest.mark.parametrize("number", range(60))
def test_the_plain_search_finds_nothing_better(number):
    model, x, target, options = problem(np.random.default_rng([number, 31]))
    quick = invert(model, x, target, **options)
    quick.verify()
    plain = invert(model, x, target, backend="reference", time_limit=20.0, **options)
    assert quick.status == plain.status
    if quick.status == Status.EXACT:
        assert quick.cost == pytest.approx(plain.cost, rel=2 * SAME)
    else:
        assert (quick.status, quick.proba[target]) == (Status.UNREACHABLE, pytest.approx(plain.proba[target], abs=1e-6))


def test_every_set_of_instructions(instructions):
    """Nodes may differ where sums round otherwise; what is found, and that it is proved, does not."""
    for number in range(8):
        model, x, target, options = problem(np.random.default_rng([number, 32]))
        found, plain = invert(model, x, target, **options), invert(model, x, target, backend="reference", **options)
        found.verify()
        assert found.status == plain.status
        if plain.status == Status.EXACT:
            assert found.cost == pytest.approx(plain.cost, rel=2 * SAME)


def test_credit_size_takes_few_thousand_nodes():
    """Thirty whole numbers, three rules: most are settled with some hundred, each of which takes microseconds."""
    nodes = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        model = Model.binary(0.3 * rng.normal(size=30), 0.0, ["no", "yes"])
        x = rng.integers(0, 10, size=30).astype(float)
        triples = [rng.choice(30, 3, replace=False).tolist() for _ in range(3)]
        rules = [({a: 1.0, b: 1.0, c: -1.0}, "<=", float(x[a] + x[b] - x[c]) + 3) for a, b, c in triples]
        target = "yes" if model.predict(x) == "no" else "no"
        cf = invert(model, x, target, prob=0.9, actions=Actions(integer=True, bounds=(0, 20), linear=rules))
        assert cf.status == Status.EXACT
        nodes.append(cf.n_nodes)
    assert np.median(nodes) < 1000
    assert max(nodes) < 5000


def test_few_pixels_of_many_and_ten_classes(rng):
    """K = 10, D = 784, ten changes: the multipliers of the classes close the gap almost alone."""
    model = Model(0.5 * rng.normal(size=(10, 784)), np.zeros(10))
    cf = invert(model, rng.random(784), 3, prob=0.9, actions=Actions(bounds=(0, 1)), max_changes=30)
    assert cf.status == Status.EXACT
    assert cf.n_changes <= 30
    assert cf.n_nodes < 1000
    cf.verify()


def test_categories_and_a_rule_between_them_and_a_number():
    """Options are chosen one against the others; all plans enumerated."""
    rows = pd.DataFrame({"work": [0.0], "job_a": [1.0], "job_b": [0.0], "job_c": [0.0]})
    A = np.array([[0.0, 0.0, 0.0, 0.0], [0.25, 0.0, 1.0, 1.6], [-0.2, 0.5, 0.1, -0.4]])
    model = Model(A, np.array([0.0, -1.2, 0.3]), classes=["no", "yes", "other"], feature_names=list(rows))
    rule = ({"work": 1.0, "job_b": 3.0}, "<=", 6.0)
    actions = Actions(integer=["work"], bounds={"work": (0, 10)}, linear=[rule], one_of=[["job_a", "job_b", "job_c"]])
    best = math.inf
    for work in range(11):
        for job in range(3):
            x = np.array([work, *np.eye(3)[job]])
            if work + 3 * x[2] <= 6 and model.predict_proba(x)[1] >= 0.7:
                best = min(best, 0.5 * float(((x - rows.to_numpy()[0]) ** 2).sum()))
    cf = invert(model, rows.iloc[0], "yes", prob=0.7, actions=actions)
    assert (cf.status, cf.cost) == (Status.EXACT, pytest.approx(best))
    cf.verify()
