"""Numbers as people write them: the rules, and that Python and JavaScript write every number alike."""

import json
import math
from importlib.resources import files

import numpy as np
import pytest
from helpers.browser import scripted

from ifonly.show import numbers
from ifonly.show.numbers import MINUS, asked, bound, count, fixed, number, pair, percent, rounded, share, signed, value

TWIN = (files("ifonly.show") / "web" / "numbers.js").read_text(encoding="utf-8")

# ---- the rules ----

NUMBERS = {
    36.0: "36",
    -2.0: f"{MINUS}2",
    -0.0: "0",
    1234.0: "1234",
    1234.5: "1235",
    12500.0: "12\u202f500",
    1234567.0: "1\u202f234\u202f567",
    12345.678: "12\u202f346",
    0.435538: "0.4355",
    99.99996: "100",
    -0.000123456: f"{MINUS}0.0001235",
    1.23456e-7: "1.235\u00a0×\u00a010⁻⁷",
    9.99996e-5: "1\u00a0×\u00a010⁻⁴",
    1e20: "1\u00a0×\u00a010²⁰",
    float("nan"): "–",
    float("inf"): "∞",
    -float("inf"): f"{MINUS}∞",
}


@pytest.mark.parametrize(("v", "text"), NUMBERS.items())
def test_numbers_as_people_write_them(v, text):
    assert number(v) == text


def test_differences_have_signs_and_values_may_be_anything():
    assert [signed(number(v)) for v in (1.5, -1.5, 0.0, math.nan)] == ["+1.5", f"{MINUS}1.5", "0", "–"]
    assert [signed(fixed(v, 2)) for v in (1.5, -1.5, -0.001)] == ["+1.50", f"{MINUS}1.50", "0.00"]
    assert [value(v) for v in ("skilled", None, True, 3, 2.5)] == ["skilled", "missing", "True", "3", "2.5"]
    assert [count(n, "row") for n in (0, 1, 12_500)] == ["0 rows", "1 row", "12\u202f500 rows"]


def test_a_pair_of_numbers_gets_the_digits_that_tell_them_apart():
    assert pair(1.00001, 1.00002) == ("1.00001", "1.00002")
    assert pair(1.0, 1.0) == ("1", "1")


PROBABILITIES = [0.0, 1e-9, 0.004, 0.01, 0.28085, 0.5, 0.59996, 0.7999999, 0.8, 0.985, 0.9949, 0.99951, 1 - 1e-12, 1.0]


@pytest.mark.parametrize("form", ["whole", "tenths", "short"])
@pytest.mark.parametrize("p", PROBABILITIES)
def test_per_cent_never_says_more_than_is_true(p, form):
    text = percent(p, form)
    shown = float(text.strip("<> %"))
    assert shown <= 100 * p * (1 + 2e-9) or text == "< 0.1 %"
    assert 100 * p - shown < (1 if form == "whole" else 0.1)


def test_what_was_asked_for_and_reached_reads_as_reached():
    """Every tenth of a per cent, in all forms, as it was asked for: rounding down does not make 29 % of 0.29 28 %."""
    for n in range(1, 1000):
        assert percent(n / 1000, "short") == asked(n / 1000) == f"{n / 10:g} %"
        assert percent(n / 1000, "tenths") == f"{n / 10:.1f} %"
    assert (percent(0.59996), asked(0.59996)) == ("59 %", "59.996 %")


def test_shares_are_rounded_to_the_nearest_and_bounds_up():
    assert [share(v) for v in (0.746, 0.125, 0.004, 0.0004, 0.0, -0.1)] == [
        "75 %", "13 %", "0.4 %", "< 0.1 %", "0 %", f"{MINUS}10 %",
    ]  # fmt: skip
    assert [bound(v).replace("\u00a0", " ") for v in (0.21, 2.1e-13, 3e-13, 9.5e-7, 0.0)] == [
        "0.3", "3 × 10⁻¹³", "3 × 10⁻¹³", "1 × 10⁻⁶", "the last digit",
    ]  # fmt: skip


@pytest.mark.parametrize("up", [True, False])
def test_rounding_in_a_direction_never_falls_short(rng, up):
    for v in rng.normal(size=200) * 10.0 ** rng.integers(-6, 7, 200):
        for digits in (3, 4, 9):
            near = rounded(float(v), digits, up=up)
            assert (near >= v) if up else (near <= v)
            assert abs(near - v) <= 1.0001 * 10.0 ** min(np.floor(np.log10(abs(v))) - digits + 1, 0)


# ---- the same in JavaScript ----

WORDS = ["skilled", "", None, True, False, "−1", 3]


def probes(rng):
    """Some thousands of numbers: of all sizes, where rounding turns, ties, noughts, whole ones, and no numbers at all."""
    sizes = rng.normal(size=1500) * 10.0 ** rng.uniform(-20, 20, 1500)
    thousandths = np.arange(0, 1001) / 1000
    edges = np.concatenate([thousandths, np.nextafter(thousandths, 2), np.nextafter(thousandths, -1)])
    ties = np.arange(-200, 200) / 16  # 12.5, 0.0625: exactly half-way for some number of digits
    powers = 10.0 ** np.arange(-25, 25)
    ends = [5e-324, 1.7976931348623157e308, 1e22, 1e23, 2.0**53 + 2, 999999999999999.9, 99999.5, 0.99995, 9.9995, 1234.5, -0.0]
    found = np.concatenate([sizes, rng.random(500), edges, ties, 1e4 + ties, powers, np.nextafter(powers, 0), -powers, ends])
    return [*found.tolist(), math.nan, math.inf, -math.inf]


# As text in both directions: Playwright takes seconds to hand over so many values one by one.
CALL = """(text) => JSON.stringify(
  Function(`return ${text}`)().map(([name, ...values]) => module[name](...values)),
  (key, v) => (typeof v === "number" && !Number.isFinite(v) ? { number: String(v) } : v),
)"""


def test_python_and_javascript_write_every_number_alike(browser, rng):
    calls = []
    for v in probes(rng):
        calls += [("number", v), ("percent", v), ("percent", v, "tenths"), ("percent", v, "short"), ("share", v)]
        calls += [("asked", v), ("bound", v), ("number", v, int(rng.integers(1, 18))), ("fixed", v, int(rng.integers(0, 13)))]
    calls += [("value", v) for v in WORDS] + [("value", 0.12345, 2), *(("count", n, "row") for n in (0, 1, 2, 12_345))]
    calls += [("rounded", v, digits, up) for v in probes(rng)[::3] for digits in (1, 4, 14) for up in (None, True, False)]
    seen = [(v, n) for v in probes(rng)[::5] for n in (0, 2, 12) if not abs(v) * 10.0**n > 1e13]  # a column has seven digits
    calls += [("directed", v, n, up) for v, n in seen for up in (None, True, False)]
    pairs = [*zip(probes(rng)[:800:8], probes(rng)[1:800:8], strict=True), (13.2012, 13.2041), (1.0, 1.0), (3.0, 3.0 + 1e-9)]
    calls += [("pair", *both) for both in pairs]
    calls += [("signed", text) for text in ("0", "0.00", "1", "−1", "–", "0.01", "12\u202f500")]
    with scripted(browser, TWIN) as page:
        found = page.evaluate(CALL, json.dumps(calls))  # NaN and Infinity too, as JavaScript has them
    found = json.loads(found, parse_int=float, object_hook=lambda v: float(v["number"]))
    here = [_here(name, *values) for name, *values in calls]
    assert len(calls) > 30_000
    assert [(call, a, b) for call, a, b in zip(calls, here, found, strict=True) if not (a == b or a != a != b != b)] == []


# Marks that are special in a pattern or a replacement are marks like others.
FORMATS = [(",", "."), (".", ""), (",", "\u202f"), (".", "’"), ("$", "^"), ("·", "]")]


@pytest.mark.parametrize(("decimal", "group"), FORMATS)
def test_python_and_javascript_write_the_marks_of_a_house_alike(browser, rng, decimal, group):
    calls = []
    for v in probes(rng)[::7]:
        calls += [("number", v), ("percent", v), ("percent", v, "tenths"), ("share", v), ("asked", v), ("bound", v)]
        calls += [("number", v, int(rng.integers(1, 18))), ("fixed", v, int(rng.integers(0, 13)))]
    calls += [("pair", 13.2012, 13.2041), ("count", 12_345, "row"), ("value", 0.12345, 2)]
    calls += [("signed", text.replace(".", decimal)) for text in ("0", "0.00", "1", "−1", "–", "0.01")]
    limits = [
        "rate ≤ 12.5 %",
        "2.5·amount − term ≥ -20000",
        "PM2.5 is frozen",
        "fee is a multiple of 0.5",
        "p = 0.8 is out of reach",
    ]
    calls += [("quoted", text) for text in limits]
    with scripted(browser, TWIN) as page:
        page.evaluate("(marks) => module.writeAs(marks)", {"decimal": decimal, "group": group})
        found = page.evaluate("(calls) => calls.map(([name, ...values]) => module[name](...values))", calls)
        page.evaluate("module.writeAs(null)")
        assert page.evaluate("module.number(12500.5, 6)") == number(12500.5, 6)
    with numbers.writing(numbers.Marks(decimal, group)):
        here = [_here(name, *values) for name, *values in calls]
    assert [(call, a, b) for call, a, b in zip(calls, here, found, strict=True) if a != b] == []
    assert here[calls.index(("count", 12_345, "row"))] == f"12{group}345 rows"


def _here(name, *values):
    """What Python makes of a call, as JSON has it."""
    if name in ("rounded", "directed"):
        return getattr(numbers, name)(values[0], values[1], up=values[2])
    found = getattr(numbers, name)(*values)
    return list(found) if isinstance(found, tuple) else found
