"""A question is a value, checked whatever else was given; what could have no effect is refused."""

import copy
import pickle

import numpy as np
import pytest

import ifonly
from ifonly import Actions, Cost, InputError, Model, Question, Status, ask, invert
from ifonly.engines.limited import LimitedEngine
from ifonly.engines.semismooth_newton import SemismoothNewton

THREE = Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0], classes=["a", "b", "c"], feature_names=["u", "v"])
TWO = Model.binary([1.0, -0.5], 0.0, ["no", "yes"], ["u", "v"])
X = [2.0, 0.0]

QUESTIONS = {
    "nothing": {},
    "a label": {"target": "b", "prob": 0.9},
    "a label of two parts": {"target": ("b", 2)},
    "a set": {"target": {"b", "c"}, "lam": 0.1, "tol": 1e-6, "max_iter": 7},
    "labels and numbers for each row": {"target": ["a", None], "prob": [0.5, 0.75]},
    "a start": {"lam": 0.1, "start": [0.5, 1.0]},
    "limits": {
        "actions": Actions(
            frozen=["u"], bounds={"v": (0, None)}, integer=["v"], step={1: 2.0}, linear=[({"u": 1, "v": -1}, "<=", 3)]
        ),
        "max_changes": 2,
        "n": 3,
        "gap": 0.01,
        "time_limit": 1.5,
        "node_limit": 10,
    },
    "a cost": {"cost": Cost(scale={"u": 2.0}, l1=0.1), "margin": 1.0, "backend": "cpu", "threads": 2},
    "a matrix": {"cost": Cost(matrix=[[2.0, 0.5], [0.5, 1.0]])},
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_survives_json_and_pickling(name):
    question = Question(**QUESTIONS[name])
    for other in (Question.from_json(question.to_json()), pickle.loads(pickle.dumps(question)), copy.deepcopy(question)):
        assert other == question
        assert hash(other) == hash(question)
        assert repr(other) == repr(question) or name in ("limits", "a cost", "a matrix")
    assert question != Question(target="something else")


def test_equal_questions_are_shown_alike():
    """Sets have an order, that of their hashes and of how they were made: 1 and 9 share a place in a small table."""
    one, other = (Question(target=labels) for labels in ({1, 9}, {9, 1}))
    assert list(one.target) != list(other.target)  # or there is nothing to see here
    assert repr(one) == repr(other) == "Question(target={1, 9})"


@pytest.mark.parametrize("name", ["nothing", "a label", "a set", "limits", "a cost"])
def test_a_question_from_json_has_the_same_answer(name):
    options = {key: value for key, value in QUESTIONS[name].items() if key not in ("n", "gap", "node_limit", "time_limit")}
    question = Question(**options)
    before, after = (ifonly.Ask(THREE, q)([[0.0, 3.0]]) for q in (question, Question.from_json(question.to_json())))
    np.testing.assert_array_equal(before.x, after.x)
    assert before.status.tolist() == after.status.tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "JSON object"),
        ("[1]", "JSON object; got list"),
        ('{"wanted": 1}', "no 'wanted'"),
        ('{"cost": {"price": 1}}', "cost must be an object"),
        ('{"target": {"some": [1]}}', '"pairs", "any" or "tuple"'),
    ],
)
def test_what_is_no_question_is_refused(text, said):
    with pytest.raises(InputError, match=said):
        Question.from_json(text)


WRONG = [
    ({"backend": "gpu"}, 'backend must be "auto", "reference", "cpu" or "cuda"; got \'gpu\''),
    ({"node_limit": -5}, "node_limit must be 1 or more; got -5"),
    ({"node_limit": 2.5}, "node_limit must be 1 or more; got 2.5"),
    ({"gap": -3}, "gap must be a number ≥ 0; got -3"),
    ({"gap": "x"}, "gap must be a number ≥ 0; got 'x'"),
    ({"time_limit": -1}, "time_limit must be a number of seconds > 0; got -1"),
    ({"time_limit": "long"}, "time_limit must be a number of seconds > 0"),
    ({"threads": -3}, "threads must be 1 or more; got -3"),
    ({"max_iter": 0}, "max_iter must be 1 or more; got 0"),
    ({"tol": -1.0}, "tol must be a number > 0"),
    ({"n": 0}, "n must be a whole number ≥ 1"),
    ({"max_changes": True}, "max_changes must be a whole number ≥ 0"),
    ({"start": "here"}, "start must be a point"),
    ({"cost": 3}, "cost must be a Cost; got int"),
    ({"actions": {}}, "actions must be Actions; got dict"),
]


@pytest.mark.parametrize("more", [{}, {"actions": Actions(integer=True)}, {"joint": True}], ids=["free", "limits", "joint"])
@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[str(wrong) for wrong, _ in WRONG])
def test_a_wrong_argument_is_refused_whatever_else_was_given(wrong, said, more):
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        invert(THREE, X, {"b", "c"}, **{**more, **wrong})


IDLE = [
    (THREE, {"time_limit": 1.0}, "time_limit stops a search"),
    (THREE, {"gap": 0.1}, "gap stops a search"),
    (THREE, {"node_limit": 9}, "node_limit stops a search"),
    (TWO, {"max_iter": 9}, "closed form"),
    (THREE, {"actions": Actions(bounds=(0, 3)), "gap": 0.1}, "gap stops a search over whole numbers"),
    (THREE, {"actions": Actions(bounds=(0, 3)), "prob": 0.6, "tol": 0.1}, "tol goes with lam"),
    (THREE, {"actions": Actions(integer=True), "max_iter": 9}, "takes a search instead"),
    (TWO, {"actions": Actions(bounds=(0, 3)), "max_iter": 9}, "takes a search instead"),
    (THREE, {"actions": Actions(bounds=(0, 3)), "lam": 1.0, "start": X}, "start is for problems without limits"),
    (THREE, {"actions": Actions(bounds=(0, 3)), "lam": 1.0, "start": np.array(X)}, "start is for problems without limits"),
    (THREE, {"actions": Actions(integer=True), "backend": "cuda"}, "on features one by one"),
    (THREE, {"backend": "cuda", "threads": 2}, "threads is for the processor"),
]


@pytest.mark.parametrize(("model", "options", "said"), IDLE, ids=[str(options) for _, options, _ in IDLE])
def test_an_argument_without_effect_is_refused_with_the_reason(model, options, said):
    with pytest.raises(InputError, match=said):
        ask(model, **options)


@pytest.mark.parametrize("more", [{}, {"lam": 0.1}, {"actions": Actions(integer=True)}, {"n": 2}], ids=str)
def test_threads_for_one_source_are_refused_unless_they_share_its_passes(more, synthetic):
    with pytest.raises(InputError, match="threads share the rows of a table, and this is one source"):
        invert(THREE, X, "b", threads=2, **more)
    if "n" not in more:
        assert len(invert(THREE, [X, X], "b", threads=2, **more)) == 2
    assert invert(THREE, X, "b", threads=1, **more) is not None
    one, two = (invert(synthetic.model, synthetic.X[0], 7, threads=n, lam=0.1) for n in (1, 2))
    np.testing.assert_array_equal(one.x, two.x)


def test_several_plans_do_not_go_into_an_array():
    with pytest.raises(InputError, match="with n leave it out"):
        invert(THREE, X, "b", n=1, out=np.zeros((1, 2)))


def test_iterations_are_limited_with_a_cost_too():
    rng = np.random.default_rng(0)
    model, x = Model(3 * rng.normal(size=(6, 9)), np.zeros(6)), rng.normal(size=9)
    whole = invert(model, x, 3, lam=1e-3, cost=Cost(l1=0.5))
    cf = invert(model, x, 3, lam=1e-3, cost=Cost(l1=0.5), max_iter=1)
    assert whole.n_iter > 2
    assert cf.status is Status.MAX_ITER


# ---- asked once, answered often ----


def test_an_ask_answers_as_invert_does():
    limits = {"actions": Actions(integer=["u"]), "prob": 0.8}
    approve = pickle.loads(pickle.dumps(ask(THREE, "b", **limits)))
    rows = [[2.0, 0.0], [0.0, -3.0]]
    np.testing.assert_array_equal(approve(rows).x, invert(THREE, rows, "b", **limits).x)
    np.testing.assert_array_equal(approve(rows[1]).x, invert(THREE, rows[1], "b", **limits).x)
    np.testing.assert_array_equal(
        approve.path(X, lams=[1.0, 0.1]).x, ifonly.path(THREE, X, "b", lams=[1.0, 0.1], actions=limits["actions"]).x
    )
    with pytest.raises(InputError, match="no argument 'porb'"):
        ask(THREE, "b", porb=0.9)


@pytest.mark.parametrize(
    "options",
    [{}, {"lam": 0.1}, {"actions": Actions(bounds=(-1, 3))}, {"actions": Actions(integer=True)}, {"margin": 0.5}],
    ids=str,
)
@pytest.mark.parametrize("model", [TWO, THREE], ids=["two", "three"])
def test_every_kind_of_answer_is_a_value(model, options):
    rows = np.array([[2.0, 0.0], [0.0, 2.5], [np.nan, 0.0], [1.0, -1.0]])
    cfs = invert(model, rows, None, **options)
    for other in (pickle.loads(pickle.dumps(cfs)), copy.deepcopy(cfs)):
        np.testing.assert_array_equal(other.x, cfs.x)
        assert [cf.status for cf in other] == [cf.status for cf in cfs]
    for index in (slice(1, 3), np.array([True, False, False, True]), [3, 0], []):
        some = cfs[index]
        assert isinstance(some, ifonly.Counterfactuals)
        np.testing.assert_array_equal(some.x, cfs.x[index] if len(some) else np.zeros((0, 2)))
        np.testing.assert_array_equal(some.source, rows[index] if len(some) else np.zeros((0, 2)))
        assert some.target.tolist() == cfs.target[index if len(some) else slice(0)].tolist()
        for cf in some:
            assert cf.status is Status.INVALID or cf.verify() is not None
    one = pickle.loads(pickle.dumps(cfs[0]))
    np.testing.assert_array_equal(one.x, cfs[0].x)
    one.verify()


# ---- one search for the nearest class, with limits too ----


def test_with_limits_few_classes_are_solved_for_the_nearest(monkeypatch):
    rng = np.random.default_rng(1)
    model, x = Model(rng.normal(size=(12, 5)), rng.normal(size=12)), rng.normal(size=5)
    solved = []
    monkeypatch.setattr(
        SemismoothNewton,
        "answer",
        lambda self, problem, *rest, old=SemismoothNewton.answer: solved.append(problem.k) or old(self, problem, *rest),
    )
    assert issubclass(SemismoothNewton, LimitedEngine)
    actions = Actions(bounds=(-2, 2))
    nearest = invert(model, x, None, prob=0.6, actions=actions)
    tried = len(solved)
    every = invert(model, x, "all", prob=0.6, actions=actions)
    reached = every.status == Status.EXACT
    others = np.flatnonzero(reached & (every.results.target != model.logits(x).argmax()))
    assert nearest.target == every.target[others[every.cost[others].argmin()]]
    assert tried < 11
