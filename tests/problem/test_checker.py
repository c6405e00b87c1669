"""The checker: it takes what `invert` finds, refuses whatever was changed in it, and imports nothing that solves."""

import ast
import math
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from helpers.limited_problems import Asked, a_model, a_search, a_solved, an_asked

import ifonly
from ifonly import Actions, CertificateError, Cost, InputError, Model, Status, invert
from ifonly.problem.checker import check
from ifonly.problem.conditions import Conditions
from ifonly.problem.free import Problem
from ifonly.problem.goals import probabilities
from ifonly.problem.proof import Leaf, Multipliers, Proof
from ifonly.problem.results import Result

TOLERANCES = {
    "lie": 1e-6,  # relative: the smallest change of a number that has to be found; honest ones differ by 1e-10 at most
    "gap": 1e-8,  # relative to 1 + cost: the gap that is proved of an answer called EXACT
    "ceiling": 1e-6,  # between the proved ceiling and the best probability, where bounds are finite on all sides
}
SEEDS = range(40)
SRC = Path(ifonly.__file__).parent


def a_free(rng) -> Asked:
    model = a_model(rng)
    x = rng.normal(size=model.n_features)
    what = {"lam": 10 ** rng.uniform(-3, 2)} if rng.random() < 0.5 else {"prob": float(rng.uniform(0.3, 0.999))}
    return Asked(model, x, int(model.scores(x).argmin()), **what)


def answered(asked: Asked, cf=None):
    """An answer as plain values: what `check` takes."""
    cf = invert(asked.model, asked.source, asked.k, **asked.options) if cf is None else cf
    within = cf.within
    more = {}
    if within is not None:
        more = {"cost": cf.cost, "bound": cf.bound, "gap": cf.gap, "ceiling": within.best_bound, "multipliers": within.nu}
        more |= {"proof": cf.result.proof, "n_nodes": cf.n_nodes}
    result = Result(asked.k, cf.status, cf.lam, cf.distance, cf.objective, cf.grad_norm, cf.proba, **more)
    conditions = None if within is None else asked.conditions
    return {
        "model": cf.model,
        "conditions": conditions,
        "source": asked.source,
        "x": cf.x,
        "prob": asked.prob,
        "result": result,
    }


def changed(case, **values):
    """The same answer with another claim."""
    return {**case, "result": replace(case["result"], **values)}


# ---- what it imports ----


def imported(name: str) -> set[str]:
    """All modules that one imports, late imports included."""
    path = SRC.joinpath(*name.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    out = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            out.add(node.module)
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            out |= {m for m in inner if m.startswith("ifonly.") and SRC.joinpath(*m.split(".")[1:]).with_suffix(".py").exists()}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            raise AssertionError(f"{name}, line {node.lineno}: a module by its name in a string cannot be followed")
    return out


def closure_of(name: str) -> set[str]:
    """A module, and all of ours that it brings with it."""
    closure, left = set(), {name}
    while left:
        name = left.pop()
        closure.add(name)
        parents = {name.rsplit(".", i)[0] for i in range(1, name.count("."))}
        left |= {m for m in imported(name) | parents if m.split(".")[0] == "ifonly"} - closure - {"ifonly"}
    return closure


def test_the_checker_in_fractions_shares_nothing_with_the_other():
    """The theorem stands there a second time: what both have is what a question means, and what a tree of cuts is."""
    found = {m.removeprefix("ifonly.problem.") for m in closure_of("ifonly.problem.exactly") if m.startswith("ifonly.problem.")}
    assert found == {"exactly", "conditions", "cost", "actions", "limits", "proof", "free"}  # the room itself names the last
    assert len((SRC / "problem" / "exactly.py").read_text(encoding="utf-8").splitlines()) < 400  # as docs/proof.md says


def test_fractions_are_for_models_of_a_size():
    model = Model(np.eye(2, 600_000), np.zeros(2))
    cf = invert(model, np.append([2.0, 0.0], np.zeros(599_998)), 1, prob=0.6)
    assert cf.verify().claim == "proved"
    with pytest.raises(InputError, match="exact=True is for models of up to 1000000 weights; this one has 1200000"):
        cf.verify(exact=True)


def test_the_checker_imports_nothing_that_solves():
    closure = closure_of("ifonly.problem.checker")
    # The model reads the rows and columns that it is asked about.
    rooms = ("ifonly.problem", "ifonly.model", "ifonly.rows.tables", "ifonly.rows")
    outside = {m for m in closure if not m.startswith(("ifonly.problem", "ifonly.model")) and m not in rooms}
    assert outside == set()
    assert not any(m.startswith(("ifonly.model.readers", "ifonly.model.store")) for m in closure)
    others = {m.split(".")[0] for name in closure for m in imported(name)} - {"ifonly"} - set(sys.stdlib_module_names)
    assert others <= {"numpy", "scipy"}  # SciPy for the textbook's Hessian as an operator, and for bent columns


# ---- honest answers ----


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", [a_free, an_asked])
@pytest.mark.parametrize("exact", [False, True])
def test_what_invert_finds_is_proved(make, seed, exact):
    asked, cf = a_solved(np.random.default_rng([seed, 11]), make)
    case = answered(asked, cf)
    result = case["result"]
    found = check(**case, exact=exact)
    assert found.unproved == ()
    assert found.claim == "proved"
    if result.status is Status.EXACT:
        whole = found.objective if asked.prob is None else 0.5 * found.distance**2 if math.isnan(result.cost) else result.cost
        assert 0 <= whole - found.bound <= TOLERANCES["gap"] * (1 + abs(whole))
    else:
        assert result.status is Status.UNREACHABLE
        assert math.isinf(result.lam) or case["conditions"] is None
        if asked.prob is not None:
            assert found.ceiling < asked.prob
            assert found.ceiling >= found.proba[asked.k] * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("exact", [False, True])
def test_of_a_search_everything_is_proved(seed, exact):
    asked = a_search(np.random.default_rng([seed, 12]))
    case = answered(asked)
    result = case["result"]
    found = check(**case, exact=exact)
    assert found.unproved == ()
    assert found.gap == result.gap
    if result.status is Status.UNREACHABLE:
        assert found.proba[asked.k] * (1 - 1e-9) <= found.ceiling < asked.prob
    else:
        whole = found.objective if asked.lam is not None else result.cost
        assert result.status is Status.EXACT
        assert 0 <= whole - found.bound <= TOLERANCES["gap"] * (1 + abs(whole))
    lie = 1 + TOLERANCES["lie"]
    for name in ("distance", "cost", "objective"):
        if getattr(result, name) > 0:
            with pytest.raises(CertificateError, match=f"{name} is"):
                check(**changed(case, **{name: getattr(result, name) * lie}))
    moved = bool((case["x"] != case["source"]).any())
    if moved or result.status is Status.UNREACHABLE or asked.lam is not None:
        with pytest.raises(CertificateError, match="a proof has no gradient"):
            check(**changed(case, grad_norm=1.0))
        with pytest.raises(CertificateError, match=r"the proof has .* nodes; the answer claims"):
            check(**changed(case, n_nodes=result.n_nodes + 1))
        without = check(**changed(case, proof=None))
        assert without.claim == "not proved here"
        assert "comes without its proof" in without.unproved[0]
        assert without.bound == -math.inf
    if result.status is not Status.UNREACHABLE:
        with pytest.raises(CertificateError, match="the gap must be"):
            check(**changed(case, gap=-1.0))


@pytest.mark.parametrize("seed", range(11))
def test_a_search_that_claims_too_much_is_found(seed):
    rng, whole, status = np.random.default_rng([seed, 15]), 0.0, None
    while status is not Status.EXACT or whole < 1e-3:  # something to claim
        asked = a_search(rng)
        case = answered(asked)
        whole = case["result"].objective if asked.lam is not None else case["result"].cost
        status = case["result"].status
    # Without multipliers all stays as it is (sources are whole numbers within their bounds), which costs nothing.
    nothing = Multipliers(np.zeros(asked.model.n_classes - 1), np.zeros(0), None)
    with pytest.raises(CertificateError, match="the lower bound that can be proved is"):
        check(**changed(case, proof=Proof((Leaf(0),), (nothing,)), n_nodes=1))
    with pytest.raises(CertificateError, match=r"that is not what CONVERGED says"):
        check(**changed(case, status=Status.CONVERGED))
    with pytest.raises(CertificateError, match=r"that is not what EXACT says|not what STOPPED says"):
        check(**changed(case, gap=0.1 * whole, bound=0.9 * whole))


def test_an_answer_of_a_pipeline_with_other_units():
    model = Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], scaling=ifonly.Scaling(np.array([1.0, 2.0]), np.array([2.0, 0.5])))
    source = np.array([5.0, 1.0])
    for cost in (None, Cost("raw"), Cost([3.0, 1.0])):
        found = check(**answered(Asked(model, source, 1, prob=0.8, cost=cost)))
        assert found.unproved == ()


def test_the_source_itself_costs_nothing():
    model = Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    case = answered(Asked(model, np.array([2.0, 1.0]), 0, prob=0.5))
    found = check(**case)
    assert (found.bound, found.gap, found.grad_norm) == (0.0, 0.0, 0.0)
    with pytest.raises(CertificateError, match="claims to be the source itself"):
        check(**{**case, "x": np.array([2.0, 1.1])})


def test_the_nearest_point_within_bounds_that_reaches_the_goal():
    """λ is infinite: the goal is in nobody's way, and the cost alone was minimised."""
    model = Model(np.array([[1.0, 0.3, 0.0], [0.0, 1.0, 0.4], [-1.0, 0.2, 1.0]]), np.zeros(3))
    asked = Asked(model, np.array([0.2, 0.0, 0.0]), 0, prob=0.5, actions=Actions(bounds={0: (2.0, 3.0)}))
    case = answered(asked)
    assert math.isinf(case["result"].lam)
    assert check(**case).bound == pytest.approx(0.5 * 1.8**2)
    raised = case["result"].bound * 1.01
    with pytest.raises(CertificateError, match=r"lower bound that can be proved|the bound is"):
        check(**changed(case, bound=raised))


# ---- tampering ----


NUMBERS = range(24)


@cache
def exact(number: int):
    """An EXACT answer that is not the source; every fourth without limits."""
    rng = np.random.default_rng([number, 13])
    while True:
        asked, cf = a_solved(rng, a_free if number % 4 == 0 else an_asked)
        case = answered(asked, cf)
        if case["result"].status is Status.EXACT and np.isfinite(case["result"].lam) and (case["x"] != case["source"]).any():
            return case


@pytest.fixture(params=NUMBERS)
def case(request):
    """Answers of all kinds, with something changed in each."""
    return exact(request.param)


@pytest.mark.parametrize("sign", [1, -1])
def test_every_number_that_is_off_is_found(case, sign):
    result, lie = case["result"], 1 + sign * TOLERANCES["lie"]
    for name in ("distance", "cost", "objective"):
        if not math.isnan(getattr(result, name)):
            with pytest.raises(CertificateError, match=f"{name} is"):
                check(**changed(case, **{name: getattr(result, name) * lie}))
    for j in range(len(result.proba)):
        proba = result.proba.copy()
        proba[j] *= lie
        with pytest.raises(CertificateError, match=r"p\(.*\) is"):
            check(**changed(case, proba=proba))


def test_bounds_and_gradients_too_good_to_be_true_are_found(case):
    result, fresh = case["result"], check(**case)
    sure = 0.99 * (fresh.grad_norm - fresh.rounding)  # more of it is not known
    for wrong in [math.nan] + [0.0] * (fresh.grad_norm > 0) + [sure] * (sure > 0):
        with pytest.raises(CertificateError, match="the answer claims at most"):
            check(**changed(case, grad_norm=wrong))
    if math.isnan(result.bound):
        return
    whole = result.cost if case["prob"] is not None else result.objective
    with pytest.raises(CertificateError, match="the bound is"):
        check(**changed(case, bound=whole * (1 + TOLERANCES["lie"]) + 1e-6))
    with pytest.raises(CertificateError, match="the gap must be"):
        check(**changed(case, bound=whole + 1.0, gap=-1.0))
    with pytest.raises(CertificateError, match="the bound is"):
        check(**changed(case, gap=result.gap + 1e-3))
    with pytest.raises(CertificateError, match="ceiling belongs"):
        check(**changed(case, ceiling=0.9))


def test_statuses_that_are_not_true_are_found(case):
    words = {
        Status.INVALID: "no answer to verify",
        Status.STOPPED: "no search was made|is not what STOPPED says",
        Status.UNREACHABLE: "is within reach|nothing is out of reach",
    }
    for status, said in words.items():
        with pytest.raises(CertificateError, match=said):
            check(**changed(case, status=status))


def test_another_question_is_found_out(case):
    """A raised probability is not reached; with a lowered one, another λ or class, the same x is not the optimum."""
    prob, result = case["prob"], case["result"]
    if prob is not None:
        with pytest.raises(CertificateError, match="that was asked for"):
            check(**{**case, "prob": prob * (1 + TOLERANCES["lie"])})
        with pytest.raises(CertificateError, match=r"lower bound that can be proved|so far above"):
            check(**{**case, "prob": prob * (1 - 1e-4)})
    if case["conditions"] is None or case["conditions"].margin is None:
        for lam in (result.lam * 1.01, result.lam / 1.01):
            with pytest.raises(CertificateError):
                check(**changed(case, lam=lam))
        for lam in (0.0, -1.0, math.nan):
            with pytest.raises(CertificateError, match="λ must be"):
                check(**changed(case, lam=lam))
    with pytest.raises(CertificateError):
        check(**changed(case, target=(result.target + 1) % case["model"].n_classes))


def test_another_x_is_found_out(case):
    """Not to the last bit, but as soon as it costs or reaches anything else than is claimed."""
    moved = np.flatnonzero(case["x"] != case["source"])
    for d in moved[:3]:
        x = case["x"].copy()
        x[d] += 1e-4 * max(abs(x[d] - case["source"][d]), 1e-3)
        with pytest.raises(CertificateError):
            check(**{**case, "x": x})
    with pytest.raises(CertificateError, match="no answer to verify"):
        check(**{**case, "x": np.full_like(case["x"], np.nan)})


@pytest.mark.parametrize("case", [number for number in NUMBERS if number % 4], indirect=True)
def test_a_limit_that_is_broken_by_one_ulp_is_found(case):
    conditions, x = case["conditions"], case["x"]
    d = int(np.argmax(x != case["source"]))
    if x[d] > case["source"][d]:
        tight = {"bounds": {d: (None, float(np.nextafter(x[d], -np.inf)))}}
    else:
        tight = {"bounds": {d: (float(np.nextafter(x[d], np.inf)), None)}}
    tighter = Conditions(case["model"], conditions.cost, Actions(**tight), margin=conditions.margin)
    with pytest.raises(CertificateError, match="a limit is broken"):
        check(**{**case, "conditions": tighter})
    none = Conditions(case["model"], conditions.cost, conditions.actions, 0, conditions.margin)
    with pytest.raises(CertificateError, match="features change; at most 0 may"):
        check(**{**case, "conditions": none})


def test_a_limit_that_binds_cannot_be_taken_away():
    model = Model(np.eye(3), np.zeros(3))
    asked = Asked(model, np.array([0.0, 1.0, 0.5]), 0, prob=0.7, actions=Actions(bounds={0: (None, 0.4)}))
    case = answered(asked)
    check(**case)
    with pytest.raises(CertificateError, match="‖∂E"):
        check(**{**case, "conditions": Conditions(model)})


def test_multipliers_that_prove_nothing_are_found():
    model = Model(np.eye(3), np.zeros(3))
    rule = [({0: 1.0, 1: 1.0}, "<=", 1.0)]
    case = answered(Asked(model, np.array([0.0, 1.0, 0.5]), 0, prob=0.7, actions=Actions(linear=rule)))
    assert case["result"].multipliers[0] > 0
    for wrong in (None, np.zeros(1), -case["result"].multipliers, case["result"].multipliers * 1.01, np.full(1, np.nan)):
        with pytest.raises(CertificateError, match="‖∂E"):
            check(**changed(case, multipliers=wrong))


def test_what_does_not_fit_the_model_is_refused():
    case = exact(1)
    K = case["model"].n_classes
    for wrong in ({"target": K}, {"target": -1}, {"proba": np.full(K + 1, 0.1)}):
        with pytest.raises(CertificateError, match="the model has"):
            check(**changed(case, **wrong))
    with pytest.raises(InputError, match="must have"):
        check(**{**case, "x": case["x"][:-1]})
    with pytest.raises(InputError, match="for another model"):
        check(**{**case, "model": Model(np.eye(9), np.zeros(9))})


# ---- out of reach ----


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_out_of_reach_is_proved_by_a_ceiling(K, seed):
    rng = np.random.default_rng([K, seed, 14])
    model = Model(rng.normal(size=(K, 4)), rng.normal(size=K))
    x = rng.normal(size=4)
    asked = Asked(
        model,
        x,
        int(model.scores(x).argmin()),
        prob=1 - 1e-9,
        actions=Actions(bounds={d: (float(v - 1), float(v + 1)) for d, v in enumerate(x)}),
    )
    case = answered(asked)
    found = check(**case)
    p = float(found.proba[asked.k])
    assert found.unproved == ()
    assert p <= found.ceiling <= p + TOLERANCES["ceiling"]
    with pytest.raises(CertificateError, match="within reach"):
        check(**{**case, "prob": p * 0.999})
    with pytest.raises(CertificateError, match=r"p\(target\) is at most .*; the answer claims at most"):
        check(**changed(case, ceiling=p * (1 - TOLERANCES["lie"])))
    with pytest.raises(CertificateError, match="below the"):
        check(**changed(case, status=Status.EXACT, ceiling=1.0))


def test_a_ceiling_without_bounds_where_no_input_beats_all_rivals():
    """The target's row is the mean of its rivals': one of them is ahead everywhere."""
    model, source = Model([[0.0, 0.0], [1.0, 0.5], [-1.0, -0.5]], np.zeros(3)), np.array([0.3, 0.2])
    case = answered(Asked(model, source, 0, prob=0.5))
    found = check(**case)
    assert (case["result"].status, found.unproved) == (Status.UNREACHABLE, ())
    assert found.ceiling == pytest.approx(1 / 3, abs=TOLERANCES["ceiling"])
    near = np.array([0.01, 0.02])  # not the best point: y is moved to where nothing pulls
    proba = probabilities(model.scores(near), 0)[0]
    problem = Problem(model, source, 0, case["result"].lam)
    claims = {"proba": proba, "distance": np.linalg.norm(near - source), "objective": problem.objective(near)}
    found = check(**changed({**case, "x": near}, **claims, cost=math.nan, ceiling=1.0))
    assert found.ceiling == pytest.approx(1 / 3, abs=TOLERANCES["ceiling"])


def test_a_false_out_of_reach_is_not_called_proved():
    """The source as the answer: consistent in itself, but the ceiling at it is above what was asked for."""
    model = Model(np.eye(3), np.zeros(3))
    source = np.array([0.0, 1.0, 0.5])
    conditions = Conditions(model, actions=Actions(bounds=(-3, 3)))
    z = np.exp(source)
    proba = z / z.sum()
    result = Result(
        0, Status.UNREACHABLE, 1.0, 0.0, -math.log(proba[0]), 0.0, proba, cost=0.0, bound=0.0, gap=0.0, ceiling=float(proba[0])
    )
    found = check(model, conditions, source, source, 0.9, result)
    assert found.ceiling > 0.9
    assert "not proved here" in found.unproved[0]


# ---- free answers that are called exact ----


def test_an_exact_answer_may_not_lie_beyond_its_goal_however_small_its_lam():
    """Class 2 is beaten on both sides, and p_2 best at 0: there the gradient is 0 for λ → 0, whatever was asked for."""
    model, source, x = Model([[-1.0], [1.0], [0.0]], [0.0, 0.0, 1.0]), np.array([5.0]), np.array([1e-30])
    proba = model.predict_proba(x)
    lam = float(proba[0] - proba[1]) / 5 + 1e-30
    result = Result(2, Status.EXACT, lam, 5.0, -math.log(proba[2]), 1e-15, proba)
    with pytest.raises(CertificateError, match=r"so far above the 0\.5 that was asked for that nearer inputs reach it"):
        check(model, None, source, x, 0.5, result)
    check(model, None, source, x, float(proba[2]) * (1 - 1e-9), result)


def test_an_answer_whose_bound_is_nothing_is_not_called_proved():
    model, source = Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), np.array([2.0, 1.0])
    cf = invert(model, source, 1, prob=0.9, tol=10.0)
    result = Result(1, Status.CONVERGED, cf.lam, cf.distance, cf.objective, 10.0, cf.proba)
    found = check(model, None, source, cf.x, 0.9, result)
    assert (found.bound > 0, found.claim) == (True, "proved")
    loss, lam = cf.objective - cf.lam * cf.cost, 1e-9
    weaker = replace(result, lam=lam, objective=loss + lam * cf.cost)
    with pytest.raises(CertificateError, match="that is not what CONVERGED says"):  # a goal's λ is found to the last digit
        check(model, None, source, cf.x, 0.9, weaker)
    with pytest.raises(CertificateError, match=r"that it is 10 is not what CONVERGED says"):
        check(model, None, source, cf.x, None, weaker)
    grad_norm = Problem(model, source, 1, lam).certificate(cf.x).grad_norm
    found = check(model, None, source, cf.x, None, replace(weaker, grad_norm=grad_norm))
    assert (found.bound < 0, found.claim) == (True, "not proved here")
    assert "that E is least is not proved here" in found.unproved[0]


def test_objectives_below_the_smallest_normal_number_are_the_same():
    """−ln p is 1e-312 there: compiled code, which takes such numbers for 0, was called a liar."""
    model, source = Model([[0.0], [1.0]], [0.0, 718.0]), np.array([0.0])
    cf = invert(model, source, 1, lam=1.0)
    assert 0.0 < math.exp(-718.0) < sys.float_info.min
    case = answered(Asked(model, source, 1, lam=1.0), cf)
    for objective in (0.0, 5e-324, 1e-309):
        check(**changed(case, objective=objective))
    with pytest.raises(CertificateError, match="objective is"):
        check(**changed(case, objective=1e-300))


def test_what_newtons_last_step_leaves_is_no_lie():
    """The rivals' margins are known to 1e-10, and so is the gradient: an honest answer was refused."""
    A = [
        [-5344.714022928788, 2899.3489654250716, -7601.2068251918045, -2507.2721468489817],
        [25482.286415858078, 8071.213708613904, 13412.78852437171, -15677.240008673502],
        [828.9782081558726, 701.0414231380611, 3318.2122351752673, 2178.4057232728824],
        [-27882.731324708177, 3929.734135694753, -8194.218191967728, -20918.367838581773],
    ]
    model = Model(A, [0.8120985887278857, -0.6158938122509777, -0.6318339724308107, 0.3455691222420597])
    source = [0.062284846845653094, -0.022990838796693343, 0.013601182867050064, -0.042291365213353305]
    assert invert(model, source, 2, lam=0.00031569423124874887).verify().claim == "proved"


def test_probabilities_are_as_uncertain_as_their_logits():
    """At 4e16 logits are off by more than 1, and a probability by a factor of e to that: not by that times itself."""
    model = Model([[1.0, 0.0], [1.0 + 2.0**-50, 0.0]], [0.0, 0.0])
    source, x = np.zeros(2), np.array([4e16, 0.0])
    proba, loss = np.array([1e-9, 1.0 - 1e-9]), -math.log1p(-1e-9)
    result = Result(1, Status.MAX_ITER, 1e-40, 4e16, 0.5e-40 * 16e32 + loss, 1.0, proba)
    assert model.predict_proba(x)[0] < 1e-13
    check(model, None, source, x, None, result)


def test_what_a_basis_leaves_out_is_no_lie():
    """Two rows differ by 1e-7, the third by 6, and so a basis has the first difference to 1e-9 only."""
    A = [[-0.5, -2.0, -4.5], [-0.49999997122191375, -2.000000032852113, -4.500000099072501], [-0.5, 0.5, 1.0]]
    model = Model(A, [0.008787238604301913, -0.004448598241344811, -4.5456564208936204e-05])
    source = [0.023336788510692708, -0.5795834344208608, -3.6686280166805094]
    assert invert(model, source, 0, lam=0.0029414711492603534).verify().claim == "proved"
