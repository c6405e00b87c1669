"""A policy: what it says, what it forbids, and what people read because of it."""

import json
import pickle
import re
import tomllib

import numpy as np
import pytest
from helpers.data import ROOT
from matplotlib.text import Text

import ifonly
from ifonly import Actions, Cost, InputError, Policy, credit
from ifonly.problem.conditions import Conditions
from ifonly.problem.each_limit import EachLimit
from ifonly.problem.policy import PolicyError, draft
from ifonly.problem.policy.drafting import drafted_text, is_protected
from ifonly.problem.policy.said import written
from ifonly.problem.question import Question

COMMON = {"none", "no", "other", "plans", "rate", "status", "yes", "own", "new"}  # that the library's own words have too
NAMES = ["age", "loans", "income", "duration"]
ROW = [31.0, 2.0, 900.0, 36.0]
TOML = """
version = 1
house = "Example Bank"
language = "de"
target = "approved"
prob = 0.6
may_choose = ["prob"]
max_changes = 3

[classes]
approved = "bewilligt"

[features.age]
frozen = true
reason = "Nobody gets younger."

[features.duration]
name = "term"
unit = "months"
low = 6
high = 60
step = 6
reason = "We lend for half years."

[features.income]
only = "increase"

[[linear]]
terms = { loans = 300, income = -1 }
sense = "<="
value = 0
reason = "A loan needs an income."
"""


@pytest.fixture
def model():
    return ifonly.Model.binary([0.05, -0.75, 0.002, -0.125], -1.0, ["refused", "approved"], NAMES)


@pytest.fixture
def policy(tmp_path):
    (tmp_path / "policy.toml").write_text(TOML)
    return Policy.load(tmp_path / "policy.toml")


@pytest.fixture(scope="module")
def bank():
    return ifonly.as_model(credit.pipeline(credit.applicants()[:800]))


# ---- a value, to and from files ----


def test_a_policy_goes_to_files_and_back(policy, tmp_path):
    assert Policy.from_dict(policy.to_dict()) == policy
    assert Policy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    for name in ("again.toml", "again.json"):
        policy.save(tmp_path / name)
        assert Policy.load(tmp_path / name) == policy
    assert Policy.load(tmp_path / "again.toml").features["duration"].step == 6
    with pytest.raises(AttributeError):
        policy.prob = 0.1


def test_the_writer_writes_what_tomllib_reads(tmp_path):
    odd = 'a "b" \\ \n\t\x7f é'
    told = {"target": odd, "features": {odd: {"name": odd, "values": {"1.5": odd}}, "x": {"low": -1e300, "high": 0.1}}}
    (tmp_path / "odd.toml").write_text(written(told, {("features", "x"): "a note\n\nof two"}), encoding="utf-8")
    found = Policy.load(tmp_path / "odd.toml")
    assert (found.target, found.features[odd].values["1.5"], found.features["x"].low) == (odd, odd, -1e300)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"features": {"age": {"frozen": "yes"}}}, r"features\.age\.frozen must be true or false; got 'yes'"),
        ({"features": {"age": {"forzen": True}}}, r"features\.age\.forzen is not known here; known are name, unit"),
        ({"features": {"age": 3}}, r"features\.age must be a table; got 3"),
        ({"feature": {}}, "feature is not known here; known are house"),
        ({"prob": 1.5}, "prob must be a number strictly between 0 and 1; got 1.5"),
        ({"may_choose": ["all"]}, 'may_choose must be "target" or "prob" or "cost"; got \'all\''),
        ({"features": {"age": {"only": "up"}}}, r'features\.age\.only must be "increase" or "decrease"; got \'up\''),
        ({"features": {"age": {"step": 0}}}, r"features\.age\.step must be a number > 0; got 0"),
        ({"linear": [{"terms": {"age": "x"}}]}, r"linear\.terms\.age must be a number; got 'x'"),
        ({"version": 2}, "version must be 1; got 2"),
        ({"max_changes": True}, "max_changes must be a whole number ≥ 0; got True"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(told, message):
    with pytest.raises(InputError, match=message):
        Policy.from_dict(told)


def test_what_is_wrong_with_a_file_names_it(tmp_path):
    (tmp_path / "bad.toml").write_text("prob = = 1")
    with pytest.raises(InputError, match=r"bad\.toml: Invalid value"):
        Policy.load(tmp_path / "bad.toml")
    (tmp_path / "bad.json").write_text('{"prob": 7}')
    with pytest.raises(InputError, match=r"bad\.json: prob must be"):
        Policy.load(tmp_path / "bad.json")
    with pytest.raises(InputError, match=r"none\.toml: No such file"):
        Policy.load(tmp_path / "none.toml")
    with pytest.raises(InputError, match="policy must be a Policy, a file or a mapping; got int"):
        ifonly.ask(ifonly.Model.binary([1.0], 0.0), policy=3)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"target": "maybe"}, "target: unknown class 'maybe'"),
        ({"classes": {"maybe": "x"}}, "classes.maybe: the model has no such class; it has approved, refused"),
        ({"features": {"agee": {}}}, r"features\.agee: unknown feature 'agee'; did you mean \['age'\]"),
        (
            {"features": {"purpose": {"never": ["yacht"]}}},
            r"features\.purpose\.never: purpose has no value 'yacht'; it",
        ),
        ({"features": {"age": {"values": {"30": "x"}}}}, r"features\.age\.values: age has no value '30'; it is a number"),
        ({"features": {"purpose": {"integer": True}}}, r"features\.purpose: integer: purpose is a category"),
        ({"features": {"age": {"low": 5, "high": 1}}}, r"features\.age: bounds of age: 5 is not at most 1"),
        ({"linear": [{"terms": {"agee": 1}}]}, r"linear\.0: unknown feature 'agee'"),
    ],
)
def test_a_policy_is_checked_against_the_model(bank, told, message):
    with pytest.raises(InputError, match=message):
        Policy.from_dict(told).check(bank)


# ---- what it forbids ----


def test_a_policy_is_the_question_that_says_the_same(model, policy):
    actions = Actions(
        frozen=["age"], increase=["income"], bounds={"duration": (6, 60)}, step={"duration": 6},
        linear=[({"loans": 300, "income": -1}, "<=", 0)],
    )  # fmt: skip
    same = ifonly.invert(model, ROW, "approved", prob=0.6, actions=actions, max_changes=3)
    for found in (ifonly.invert(model, ROW, policy=policy), ifonly.ask(model, policy=policy)(ROW)):
        assert (found.x.tolist(), found.prob, found.target) == (same.x.tolist(), 0.6, "approved")
    along = ifonly.path(model, ROW, policy=policy, lams=[1.0, 0.01])
    assert along.target == "approved"
    assert set(along.x[:, 0]) == {31.0}


def test_a_file_stands_for_its_policy(model, policy, tmp_path):
    found = ifonly.invert(model, ROW, policy=str(tmp_path / "policy.toml"))
    assert found.x.tolist() == ifonly.invert(model, ROW, policy=policy).x.tolist()


def test_limits_besides_are_added_and_never_taken_away(model, policy):
    given = Actions(bounds={"duration": (0, 30), "loans": (0, 5)}, frozen="loans", integer=["income"], decrease=[])
    ask = ifonly.ask(model, actions=given, max_changes=5, policy=policy)
    limits = ask.conditions.limits
    assert limits.frozen.tolist() == [True, True, False, False]
    assert (limits.lo[3], limits.hi[3], limits.step[3], limits.step[2]) == (6, 30, 6, 1)
    assert limits.increase.tolist() == [False, False, True, False]
    assert (len(limits.C), ask.question.max_changes) == (1, 3)
    wide = ifonly.ask(model, actions=Actions(bounds=(-1e6, 1e6)), policy=policy).conditions.limits
    assert (wide.lo[3], wide.hi[3], wide.hi[1]) == (6, 60, 1e6)
    assert ifonly.ask(model, max_changes=1, policy=policy).question.max_changes == 1
    for groups in ({"kind": ["loans", "income"]}, [["loans", "income"]], ["loans", "income"]):
        grouped = ifonly.ask(model, actions=Actions(one_of=groups), policy=policy).conditions.limits
        assert [group.tolist() for group in grouped.groups] == [[1, 2]]


@pytest.mark.parametrize(
    ("asked", "field", "message"),
    [
        ({"target": "refused"}, "target", "target: the policy fixes the wanted decision: approved; got 'refused'"),
        ({"target": ["approved", "refused"]}, "target", "the policy fixes the wanted decision"),
        (
            {"actions": Actions(bounds={"duration": (70, 90)})},
            "actions.bounds.duration",
            r"bounds of duration: the policy allows 6 to 60 \(We lend for half years\); got 70 to 90",
        ),
        (
            {"actions": Actions(step={"duration": 4})},
            "actions.step.duration",
            r"step of duration: the policy wants multiples of 6 \(We lend for half years\); 4 is none",
        ),
    ],
)
def test_what_loosens_is_refused_with_the_reason(model, policy, asked, field, message):
    with pytest.raises(PolicyError, match=message) as refused:
        ifonly.ask(model, **asked, policy=policy)
    assert refused.value.field == field
    assert pickle.loads(pickle.dumps(refused.value)).field == field


def test_probability_and_cost_are_fixed_unless_they_may_be_chosen(model, policy):
    assert ifonly.ask(model, prob=0.9, policy=policy).question.prob == 0.9
    strict = Policy.from_dict({**policy.to_dict(), "may_choose": [], "l1": 0.5})
    assert ifonly.ask(model, policy=strict).question.cost.l1 == 0.5
    assert ifonly.ask(model, prob=0.6, policy=strict).question.prob == 0.6
    for asked, name in (({"prob": 0.5}, "prob"), ({"lam": 1.0}, "lam"), ({"margin": 0.0}, "margin")):
        with pytest.raises(PolicyError, match=f"{name}: the policy fixes the probability to reach: prob = 0.6"):
            ifonly.ask(model, **asked, policy=strict)
    with pytest.raises(PolicyError, match="cost: the policy says what a change costs"):
        ifonly.ask(model, cost=Cost("raw"), policy=strict)
    free = Policy.from_dict({**strict.to_dict(), "may_choose": ["target", "prob", "cost"]})
    question = ifonly.ask(model, "refused", lam=2.0, cost=Cost("raw"), policy=free).question
    assert (question.target, question.lam, question.prob, question.cost.scale) == ("refused", 2.0, None, "raw")


def test_the_cost_of_single_features_goes_with_any_scale(bank):
    own = {"features": {"amount": {"cost": 0.25}, "purpose": {"cost": 9.0}}}
    place = bank.feature_index("amount")
    for scale, other in (("model", Cost()), ("raw", Cost("raw"))):
        found = ifonly.ask(bank, "approved", policy=Policy.from_dict({**own, "scale": scale})).conditions.per_unit
        column = bank.encoding.find("purpose").coordinates
        assert found[place] == 0.25
        assert found[column] == pytest.approx(9 / np.sqrt(2))
        others = np.setdiff1d(np.arange(bank.n_features), [place, *column])
        assert found[others].tolist() == other.per_unit(bank)[others].tolist()


def test_a_feature_may_cost_what_its_scaler_says_where_others_are_raw(bank):
    amount = bank.feature_index("amount")
    cost = float(Cost().per_unit(bank)[amount])
    policy = Policy.from_dict({"scale": "raw", "features": {"amount": {"cost": cost}}})
    assert cost != 1.0
    assert ifonly.ask(bank, "approved", policy=policy).conditions.per_unit[amount] == cost


def test_a_value_that_no_answer_chooses_may_be_kept_or_left(bank):
    frame = credit.applicants()[800:].drop(columns="decision")
    policy = Policy(features={"account": {"never": ["no account"]}}, target="approved")
    free = ifonly.invert(bank, frame, "approved", prob=0.6)
    bound = ifonly.invert(bank, frame, prob=0.6, policy=policy)
    before, after = frame["account"].to_numpy(), bound.x["account"].to_numpy()
    assert ((free.x["account"].to_numpy() == "no account") & (before != "no account")).any()
    assert not ((after == "no account") & (before != "no account")).any()
    assert ((before == "no account") & (after == "no account")).any()
    bound[0].verify()


def test_bounds_of_an_ordinal_are_met_in_its_order(bank):
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    frame = credit.applicants()
    levels = ["under 100", "100 to 500", "500 to 1000", "1000 or more", "unknown"]
    columns = ColumnTransformer([("o", OrdinalEncoder(categories=[levels]), ["savings"])])
    fitted = make_pipeline(columns, LogisticRegression()).fit(frame[["savings"]], frame["decision"])
    policy = Policy(features={"savings": {"low": "100 to 500", "high": "1000 or more"}})
    asked = Actions(bounds={"savings": ("under 100", "500 to 1000")})
    assert ifonly.ask(fitted, "approved", actions=asked, policy=policy).question.actions.bounds == {
        "savings": ("100 to 500", "500 to 1000")
    }
    with pytest.raises(PolicyError, match="the policy allows 100 to 500 to 1000 or more; got at least unknown"):
        ifonly.ask(fitted, "approved", actions=Actions(bounds={"savings": ("unknown", None)}), policy=policy)


def test_a_model_without_names_goes_by_numbers():
    model = ifonly.Model.binary([1.0, -1.0], 0.0)
    policy = Policy(features={"1": {"frozen": True, "name": "height"}, "0": {"name": "weight", "unit": "kg"}})
    found = ifonly.invert(model, [-1.0, 2.0], 1, policy=policy)
    assert found.x[1] == 2.0
    assert found.sentence() == "If only weight were at least 2.001 kg instead of −1, the decision would be 1 (50 %)."


# ---- what people read ----


def test_names_and_units_are_for_people_and_data_keep_their_own(model, policy):
    cf = ifonly.invert(model, ROW, policy=policy, actions=Actions(frozen=["loans", "income"]), prob=0.5)
    assert cf.sentence() == "If only term were 6 months instead of 36, the decision would be bewilligt (52 %)."
    assert str(cf.table()).splitlines()[2].startswith("term (months)    36   6     −30")
    assert "term (months)" in cf._repr_html_()
    assert cf.changes() == [("duration", 36.0, 6.0)]
    assert json.loads(cf.to_json())["changes"] == [["duration", 36.0, 6.0]]
    ifonly.verify(cf.to_json(), model)
    assert cf.to_frame().columns.tolist() == NAMES
    assert pickle.loads(pickle.dumps(cf)).sentence() == cf.sentence()
    assert ifonly.invert(model, ROW, "approved").model.words.columns == {}  # the model itself is as it was


def test_values_of_categories_have_names_too(bank):
    row = credit.applicants().drop(columns="decision").iloc[809]
    policy = Policy(features={"account": {"name": "current account", "values": {"no account": "none at all"}}})
    cf = ifonly.invert(bank, row, "approved", prob=0.6, policy=policy)
    assert "current account were none at all instead of" in cf.sentence()
    assert cf.to_frame()["account"].tolist() == ["no account"]


def test_the_page_of_an_answer_has_them(model, policy, tmp_path):
    cf = ifonly.invert(model, ROW, policy=policy, actions=Actions(frozen="loans"), prob=0.3)
    assert "term (months)" in cf.to_html(tmp_path / "page.html").read_text()


def renamed(bank):
    """Every column, value and class in words of a language that nobody speaks; and what the data call them."""
    columns, data = bank.encoding.columns, [str(label) for label in bank.classes]
    features = {}
    for i, column in enumerate(columns):
        levels = [] if column.numeric else [str(level) for level in column.levels]
        features[column.name] = {"name": f"Q{i}", "values": {level: f"V{i}{j}" for j, level in enumerate(levels)}}
        data += [column.name, *levels]
    duration = {"unit": "moons", "low": 6, "step": 6}
    return Policy(
        target="approved",
        features={
            **features,
            "duration": {**features["duration"], **duration},
            "savings": {**features["savings"], "never": ["unknown"]},
        },
        classes={"approved": "yea", "refused": "nay"},
        linear=[{"terms": {"duration": 1, "age": 12}, "sense": "<=", "value": 960}],
    ), re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, data))})(?!\w)")


@pytest.mark.seconds
def test_nothing_that_people_read_has_the_datas_names(bank, tmp_path):
    policy, theirs = renamed(bank)
    frame = credit.applicants().drop(columns="decision")
    rows, refused = frame[800:], frame.iloc[809]
    few = Actions(frozen=[name for name in frame.columns if name not in ("duration", "savings")])
    reached, plans = (ifonly.invert(bank, refused, prob=0.6, policy=policy, n=n) for n in (None, 3))
    stuck = ifonly.invert(bank, refused, prob=0.95, policy=policy, actions=few)
    many = ifonly.invert(bank, rows, prob=0.6, policy=policy)
    assert {"Q5 is frozen", "Q0 ≥ 6 moons"} & set(stuck.blocking)
    texts = [text for cf in (reached, stuck) for text in (cf.sentence(), str(cf.table()), cf._repr_html_(), cf.message)]
    texts += [*stuck.blocking, repr(plans), plans._repr_html_(), str(many.summary()), many.summary().to_html()]
    texts += [reached.letter(language=language) for language in ("de", "fr", "es")] + [stuck.letter(language="de")]
    pages = [answer.to_html(tmp_path / "page.html").read_text() for answer in (stuck, plans)]
    texts += [re.search('<main.*(?=<script type="module">)', page, re.DOTALL)[0] for page in pages]
    drawn = [reached.plot(), many.plot(), many.plot("heat map", by="target"), ifonly.path(bank, refused, policy=policy).plot()]
    texts += [" ".join(text.get_text() for text in ax.figure.findobj(Text)) for ax in drawn]
    for text in texts:
        assert set(theirs.findall(text)) <= COMMON


def test_every_kind_of_limit_has_the_policys_names(bank):
    policy, theirs = renamed(bank)
    more = Actions(
        frozen=["purpose", "account=no account"], increase=["rate"], decrease=["credits"], bounds={"amount": (1000, 9000)}
    )
    asked = policy.put(bank, Question(prob=0.6, actions=more))
    limits = EachLimit(Conditions(policy.named(bank), actions=asked.actions, max_changes=3)).all
    assert {limit.kind for limit in limits} == {"frozen", "low", "high", "rise", "fall", "rule", "grid", "changes"}
    assert [limit.words for limit in limits if theirs.search(limit.words)] == []


# ---- a first one ----


def test_a_draft_loads_again_and_is_about_the_model(bank, tmp_path):
    frame = credit.applicants()
    found = draft(bank, frame, "approved")
    (tmp_path / "policy.toml").write_text(drafted_text(found, bank))
    again = Policy.load(tmp_path / "policy.toml")
    assert again == found
    again.check(bank)
    frozen = {name for name, feature in again.features.items() if feature.frozen}
    assert frozen == {"age", "status", "foreign", "dependents"}
    duration, purpose = again.features["duration"], again.features["purpose"]
    assert (duration.low, duration.high, duration.integer) == (4, 72, True)
    assert set(purpose.values) == set(frame["purpose"])
    ifonly.invert(bank, frame.iloc[812], policy=again).verify()


def test_a_draft_without_a_target_says_where_it_goes(model):
    rows = np.array([[30.0, 1.0, 900.5, 12.0], [40.0, 0.0, 1000.0, 24.0]])
    text = drafted_text(draft(model, rows), model)
    assert '# target = "approved"   # "refused" or "approved"' in text
    assert "# age looks protected: it is frozen. Decide whether that is right.\n[features.age]" in text
    assert '[features.income]\nname = "income"\nlow = 900.5\nhigh = 1000.0\n' in text
    assert text.isprintable() or "\n" in text


@pytest.mark.parametrize("name", ["age", "Age", "customerAge", "sex", "GENDER", "race", "nationality", "marital_status",
                                  "religion", "personal_status_sex", "foreign_worker", "Familienstand"])  # fmt: skip
def test_what_looks_protected(name):
    assert is_protected(name)


@pytest.mark.parametrize("name", ["mileage", "wages", "language", "average", "trace", "amount", "sexton", "usage", "stage"])
def test_what_does_not(name):
    assert not is_protected(name)
    assert is_protected("status", ["man, single", "woman"])
    assert not is_protected("purpose", ["new car", "repairs"])


def test_the_docs_policy_is_one(bank):
    page = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    block = page.partition("```toml\n")[2].partition("```")[0]
    Policy.from_dict(tomllib.loads(block)).check(bank)
