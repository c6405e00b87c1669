"""Recourse on real credit tables: people whom a classifier refuses, what they may change, and the least change that helps.

For each data set in ../shared/data: a scikit-learn pipeline (StandardScaler, LogisticRegression on numbers and one-hot
columns) trained here, sensible actions, and the first 500 people it refuses. Printed: how many can be helped (the others are
proved to be out of reach), how far they have to go, and how long it takes, one by one and as a batch. With ``--peers`` the same
for DiCE and ceml on a handful of them, each run by a Python that has it (`peers_recourse.py`).
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import report
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from timing import Contender, blas_threads, machine, medians, options_of

import ifonly

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared" / "data"
PAGE = HERE.parent / "docs" / "recourse-benchmark.md"
PEOPLE, FEW, PATIENCE = 500, 10, 20  # people; for the peers; and seconds that these get for one
MANY = 100_000
QUICK, UNCHANGED = 5, "as they are"  # people with --quick, and the peer that answers them
PROBS = 0.5, 0.9
YES = "yes"
PEERS = {"DiCE random": "dice_ml", "DiCE genetic": "dice_ml", "ceml": "ceml"}  # and the module that each needs
SHOWN = {"valid": ".0%", "distance": ".3g", "changes": ".2f"}


@dataclass
class Case:
    """A table of numbers and categories, who was refused, and what may change."""

    name: str
    raw: pd.DataFrame
    good: np.ndarray
    frozen: list[str]
    increase: list[str] = field(default_factory=list)
    decrease: list[str] = field(default_factory=list)
    integer: list[str] = field(default_factory=list)
    step: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    balanced: bool = False
    note: str = ""
    people: int = PEOPLE

    @cached_property
    def categories(self) -> list[str]:
        return [name for name in self.raw if self.raw[name].dtype.kind not in "if"]

    @cached_property
    def table(self) -> pd.DataFrame:
        return pd.get_dummies(self.raw, columns=self.categories, dtype=float).astype(float)

    def columns_of(self, name: str) -> list[str]:
        return [c for c in self.table if c.startswith(f"{name}_")] if name in self.categories else [name]

    @cached_property
    def estimator(self) -> Any:
        logistic = LogisticRegression(max_iter=2000, class_weight="balanced" if self.balanced else None)
        return make_pipeline(StandardScaler(), logistic).fit(self.table, np.where(self.good, YES, "no"))

    @cached_property
    def actions(self) -> ifonly.Actions:
        return ifonly.Actions(
            frozen=[c for name in self.frozen for c in self.columns_of(name)],
            increase=self.increase,
            decrease=self.decrease,
            integer=self.integer,
            step=self.step,
            bounds=self.bounds,
            one_of=[self.columns_of(name) for name in self.categories],
        )

    @cached_property
    def refused(self) -> pd.DataFrame:
        return self.table[self.estimator.predict(self.table) != YES].iloc[: self.people]


def german() -> Case:
    raw = pd.read_csv(DATA / "german" / "german_credit.csv")
    good = raw.pop("Class").to_numpy() == 1
    return Case(
        "German credit",
        raw,
        good,
        frozen=["Sex", "ForeignWorker", "NumDependents", "Purpose", "CreditHistory"],
        increase=["Age", "ResidenceSince"],
        integer=["Duration", "InstallmentRate", "Age", "ResidenceSince", "CreditsAtBank"],
        step={"CreditAmount": 50},
        bounds={
            "Duration": (4, 72),
            "CreditAmount": (250, 20_000),
            "InstallmentRate": (1, 4),
            "Age": (18, 80),
            "ResidenceSince": (1, 4),
            "CreditsAtBank": (1, 4),
        },
    )


def adult() -> Case:
    kept = ["age", "workclass", "education_num", "marital_status", "occupation", "relationship", "race", "sex"]
    kept += ["capital_gain", "capital_loss", "hours_per_week", "native_country"]
    names = [*kept[:2], "fnlwgt", "education", *kept[2:], "income"]
    raw = pd.read_csv(DATA / "adult" / "adult.data.gz", names=names, skipinitialspace=True)
    good = raw["income"].to_numpy() == ">50K"
    raw = raw[kept].copy()
    raw["native_country"] = np.where(raw["native_country"] == "United-States", "US", "other")
    return Case(
        "Adult",
        raw,
        good,
        frozen=["race", "sex", "native_country", "marital_status", "relationship"],
        increase=["age", "education_num"],
        integer=["age", "education_num", "hours_per_week"],
        step={"capital_gain": 50, "capital_loss": 50},
        bounds={
            "age": (17, 90),
            "education_num": (1, 16),
            "hours_per_week": (1, 80),
            "capital_gain": (0, 20_000),
            "capital_loss": (0, 5_000),
        },
        note="income above 50K is the decision",
    )


def heloc() -> Case:
    raw = pd.read_csv(DATA / "heloc" / "heloc_dataset_v1.csv.gz")
    raw = raw[(raw.drop(columns="RiskPerformance") != -9).any(axis=1)]
    good = raw.pop("RiskPerformance").to_numpy() == "Good"
    raw = raw.astype(float)
    raw = raw.where(raw >= 0)
    raw = raw.fillna(raw.median()).round()
    percent = [c for c in raw if c.startswith(("Percent", "NetFraction"))]
    return Case(
        "HELOC",
        raw,
        good,
        frozen=["ExternalRiskEstimate", "MaxDelqEver", "NumTrades90Ever2DerogPubRec", "NumTrades60Ever2DerogPubRec"],
        increase=["MSinceOldestTradeOpen", "AverageMInFile", "NumTotalTrades", "NumSatisfactoryTrades"],
        integer=list(raw),
        bounds={c: (0, 100 if c in percent else float(raw[c].max())) for c in raw},
        note="special codes replaced by medians",
    )


def gmsc() -> Case:
    raw = pd.read_csv(DATA / "gmsc" / "cs-training.csv.zip", index_col=0)
    good = raw.pop("SeriousDlqin2yrs").to_numpy() == 0
    raw = raw.fillna(raw.median()).astype(float)
    for name in ("RevolvingUtilizationOfUnsecuredLines", "DebtRatio", "MonthlyIncome"):
        raw[name] = raw[name].clip(upper=raw[name].quantile(0.99))
    late = [c for c in raw if c.startswith("NumberOfTime")]
    counts = ["NumberOfOpenCreditLinesAndLoans", "NumberRealEstateLoansOrLines"]
    return Case(
        "Give Me Some Credit",
        raw,
        good,
        frozen=["NumberOfDependents"],
        increase=["age", "MonthlyIncome"],
        decrease=late,
        integer=["age", *late, *counts],
        step={"MonthlyIncome": 50},
        bounds={
            "age": (18, 109),
            "MonthlyIncome": (0, 30_000),
            "DebtRatio": (0, None),
            "RevolvingUtilizationOfUnsecuredLines": (0, None),
            **dict.fromkeys(late, (0, 98)),
            **dict.fromkeys(counts, (0, 60)),
        },
        balanced=True,
        note="missing values are medians, three columns cut at their 99th percentile, classes balanced",
    )


def compas() -> Case:
    raw = pd.read_csv(DATA / "compas" / "compas-scores-two-years.csv.gz")
    good = raw["two_year_recid"].to_numpy() == 0
    juvenile = ["juv_fel_count", "juv_misd_count", "juv_other_count"]
    raw = raw[["age", "priors_count", *juvenile, "c_charge_degree", "sex", "race"]]
    return Case(
        "COMPAS",
        raw,
        good,
        frozen=["sex", "race", "age"],
        decrease=["priors_count", *juvenile],
        integer=["priors_count", *juvenile],
        bounds=dict.fromkeys(("priors_count", *juvenile), (0, None)),
        note="age is frozen, and records may only be expunged",
    )


def bank() -> Case:
    """The example that comes with the package."""
    raw = ifonly.credit.applicants()
    good = raw.pop("decision").to_numpy() == "approved"
    return Case(
        "German credit, as in the package",
        raw,
        good,
        frozen=["age", "status", "foreign", "history", "purpose", "residence", "dependents", "credits"],
        integer=["duration", "amount", "rate"],
        bounds={"duration": (4, 72), "amount": (250, None), "rate": (1, 4)},
    )


CASES = {"german": german, "adult": adult, "heloc": heloc, "gmsc": gmsc, "compas": compas}


def measure(case: Case, prob: float) -> dict[str, Any]:
    """Everything about one data set."""
    say(f"{case.name}, p ≥ {prob}")
    estimator, refused, options = case.estimator, case.refused, {"prob": prob, "actions": case.actions}
    rows = refused.to_numpy()
    ifonly.invert(estimator, rows[:2], YES, **options)  # loads the compiled search
    ifonly.invert(estimator, rows[0], YES, **options)
    seconds, one_by_one = [], []
    for row in rows:
        start = time.perf_counter()
        one_by_one.append(ifonly.invert(estimator, row, YES, **options))
        seconds.append(time.perf_counter() - start)
    batch = ifonly.invert(estimator, refused, YES, **options)
    us = medians({"batch": Contender(lambda: ifonly.invert(estimator, refused, YES, **options), len(rows))})
    reached = batch.status == ifonly.Status.EXACT
    unreachable = batch.status == ifonly.Status.UNREACHABLE
    valid = np.zeros(0, dtype=bool)
    if reached.any():
        judged_on = batch.to_frame()[reached]
        p = estimator.predict_proba(judged_on)[:, list(estimator.classes_).index(YES)]
        valid = (estimator.predict(judged_on) == YES) & (p >= prob)
    nodes = np.array([cf.within.n_nodes for cf in one_by_one])
    same = np.array([cf.cost for cf in one_by_one])
    batch.verify()
    return {
        "case": case.name,
        "prob": prob,
        "note": case.note,
        "table": list(case.table.shape),
        "accuracy": float(estimator.score(case.table, np.where(case.good, YES, "no"))),
        "people": len(rows),
        "reached": int(reached.sum()),
        "unreachable": int(unreachable.sum()),
        "proved": int(sum(cf.within.best_bound < prob for cf in batch if cf.status == ifonly.Status.UNREACHABLE)),
        "valid": float(valid.mean()) if reached.any() else None,
        "distance": float(batch.distance[reached].mean()) if reached.any() else None,
        "changes": float(batch.n_changes[reached].mean()) if reached.any() else None,
        "gap": float(batch.gap[reached].max(initial=0.0)),
        "batch against one by one": float(np.abs(batch.cost - same)[reached].max(initial=0.0)),
        "ms": float(1e3 * np.median(seconds)),
        "p95 ms": float(1e3 * np.quantile(seconds, 0.95)),
        "batch us": us["batch"],
        "nodes": float(nodes.mean()),
        "most nodes": int(nodes.max()),
    }


def many(case: Case) -> dict[str, Any]:
    """A whole table, everybody to the other side."""
    say(f"{case.name}, {MANY} rows")
    X = case.table.to_numpy()[:MANY]
    start = time.perf_counter()
    cfs = ifonly.invert(case.estimator, X, "opposite", actions=case.actions)
    seconds = time.perf_counter() - start
    reached = cfs.status == ifonly.Status.EXACT
    made = pd.DataFrame(cfs.x[reached], columns=case.table.columns)
    return {
        "case": case.name,
        "rows": len(X),
        "seconds": seconds,
        "reached": int(reached.sum()),
        "unreachable": int((cfs.status == ifonly.Status.UNREACHABLE).sum()),
        "other": int((cfs.status != ifonly.Status.UNREACHABLE).sum() - reached.sum()),
        "valid": float((case.estimator.predict(made) == cfs.target[reached]).mean()),
    }


def peers(case: Case, pythons: list[str]) -> list[dict[str, Any]]:
    """What DiCE and ceml say to the first few people."""
    model = ifonly.as_model(case.estimator)
    people = case.refused.iloc[:FEW]
    ours = ifonly.invert(model, people, YES, actions=case.actions)
    found = []
    for python in pythons:
        for peer, module in PEERS.items():
            if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
                continue
            say(f"{case.name}, {peer}")
            done = subprocess.run(
                [python, str(HERE / "peers_recourse.py")],
                input=json.dumps(task(case, model, people, peer)),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                found.append({"case": case.name, "peer": peer, "error": done.stderr.strip().splitlines()[-1][:200]})
                continue
            found.append({"case": case.name, "peer": peer} | judged(case, people, ours, json.loads(done.stdout)))
    return found


def task(case: Case, model: ifonly.Model, people: pd.DataFrame, peer: str) -> dict[str, Any]:
    """For `peers_recourse.py`: the classifier, the table, the people and what may change."""
    scaler, logistic = case.estimator[0], case.estimator[-1]
    sign = 1.0 if logistic.classes_[1] == YES else -1.0
    weights = sign * logistic.coef_[0]
    raw_weights = weights / scaler.scale_
    per_column = dict(zip(case.table, raw_weights.tolist(), strict=True))
    frozen = set(case.frozen)
    rows = case.raw.loc[people.index]
    ranges = []
    for _, row in rows.iterrows():
        own = {}
        for name in case.raw:
            if name in frozen or name in case.categories:
                continue
            low, high = case.bounds.get(name, (None, None))
            low = case.raw[name].min() if low is None else low
            high = case.raw[name].max() if high is None else high
            low = max(low, row[name]) if name in case.increase else low
            high = min(high, row[name]) if name in case.decrease else high
            own[name] = [float(low), float(high)]
        ranges.append(own)
    whole = {name: int for name in (*case.integer, *case.step) if (case.raw[name] % 1 == 0).all()}  # DiCE goes by types
    rows = rows.astype(whole)
    sample = pd.concat([case.raw.sample(min(2000, len(case.raw)), random_state=0).astype(whole), rows])
    free = [i for i, c in enumerate(case.table) if not any(c in case.columns_of(name) for name in frozen)]
    return {
        "peer": peer,
        "seconds": PATIENCE,
        "numbers": {name: per_column[name] for name in case.raw if name not in case.categories},
        "categories": {n: {c[len(n) + 1 :]: per_column[c] for c in case.columns_of(n)} for n in case.categories},
        "offset": float(sign * logistic.intercept_[0] - raw_weights @ scaler.mean_),
        "rows": json.loads(sample.to_json(orient="records")),
        "people": json.loads(rows.to_json(orient="records")),
        "vary": [name for name in case.raw if name not in frozen],
        "ranges": ranges,
        "weights": weights.tolist(),
        "bias": float(sign * logistic.intercept_[0]),
        "scaled": scaler.transform(people).tolist(),
        "free": free,
    }


def kept_limits(case: Case, source: np.ndarray, x: np.ndarray, moved: np.ndarray) -> bool:
    """Whether a peer's answer keeps the limits; what it left alone is not held against it."""
    before, after, changed = (pd.Series(values, index=case.table.columns) for values in (source, x, moved))
    groups = [after[case.columns_of(name)] for name in case.categories]

    def inside(c: str, low: float | None, high: float | None) -> bool:
        return (low is None or after[c] >= low) and (high is None or after[c] <= high)

    return (
        not any(changed[c] for name in case.frozen for c in case.columns_of(name))
        and all(after[c] >= before[c] for c in case.increase if changed[c])
        and all(after[c] <= before[c] for c in case.decrease if changed[c])
        and all(after[c] % 1 == 0 for c in case.integer if changed[c])
        and all(after[c] % step == 0 for c, step in case.step.items() if changed[c])
        and all(inside(c, *limits) for c, limits in case.bounds.items() if changed[c])
        and all(sorted(group) == [0.0] * (len(group) - 1) + [1.0] for group in groups)
    )


def judged(case: Case, people: pd.DataFrame, ours: Any, said: dict[str, Any]) -> dict[str, Any]:
    """A peer's answers under the user's own classifier and limits."""
    scaler = case.estimator[0]
    valid, kept, distance, best, changes = [], [], [], [], []
    for i, answer in enumerate(said["answers"]):
        if answer is None:
            continue
        source = people.iloc[i].to_numpy()
        if isinstance(answer, list):
            x = scaler.inverse_transform([answer])[0]
        else:
            frame = pd.DataFrame(0.0, index=[0], columns=case.table.columns)
            for name, value in answer.items():
                column = f"{name}_{value}" if name in case.categories else name
                frame[column] = 1.0 if name in case.categories else value
            x = frame[case.table.columns].to_numpy()[0]
        moved = np.abs(x - source) > 1e-6 * (1 + np.abs(source))  # conic solvers leave some dust
        changes.append(sum(bool(moved[[case.table.columns.get_loc(c) for c in case.columns_of(n)]].any()) for n in case.raw))
        valid.append(case.estimator.predict(pd.DataFrame([x], columns=case.table.columns))[0] == YES)
        kept.append(kept_limits(case, source, np.where(moved, x, source), moved))
        distance.append(float(np.linalg.norm((x - source) / scaler.scale_)))
        best.append(float(ours.distance[i]) if ours.status[i] == ifonly.Status.EXACT else np.nan)
    errors = [error for error in said["errors"] if error]
    return {
        "people": len(people),
        "answered": len(valid),
        "valid": int(np.sum(valid)),
        "kept": int(np.sum(kept)),
        "both": int(np.sum(np.array(valid, bool) & np.array(kept, bool))),
        "distance": float(np.mean(distance)) if distance else None,
        "ours": float(np.nanmean(best)) if distance and np.isfinite(best).any() else None,
        "changes": float(np.mean(changes)) if changes else None,
        "ms": float(1e3 * np.median(said["seconds"])),
        "errors": sorted(set(errors))[:2],
    }


def markdown(result: dict[str, Any]) -> str:
    about = result["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    head = [
        "data", "rows × columns", "p ≥", "refused", "reached", "out of reach (proved)", "valid", "distance", "changes",
        "ms per person (p95)", "µs per row, batch", "nodes (most)",
    ]  # fmt: skip
    body = [
        [
            r["case"],
            f"{r['table'][0]} × {r['table'][1]}",
            f"{r['prob']}",
            str(r["people"]),
            str(r["reached"]),
            f"{r['unreachable']} ({r['proved']})",
            *("" if r[name] is None else format(r[name], how) for name, how in SHOWN.items()),
            f"{r['ms']:.2f} ({r['p95 ms']:.2f})",
            f"{r['batch us']:.0f}",
            f"{r['nodes']:.1f} ({r['most nodes']})",
        ]
        for r in result["cases"]
    ]
    parts = [
        f"{about['cpu']}, {about['cores']} cores, one thread for BLAS; {about['system']}; {versions}; "
        f"load before {about['load before']}; {about['date']}.",
        report.table(head, body),
        f"Largest cost − least cost that is left open: {max(r['gap'] for r in result['cases']):.1e}. Largest difference of "
        f"cost between the batch and one by one: {max(r['batch against one by one'] for r in result['cases']):.1e}.",
    ]
    if result.get("many"):
        r = result["many"]
        parts.append(
            f"**A whole table**: {r['rows']} rows of {r['case']}, everybody to the other side: {r['seconds']:.1f} s "
            f"({1e6 * r['seconds'] / r['rows']:.0f} µs per row); {r['reached']} reached, {r['unreachable']} out of reach, "
            f"{r['other']} neither; valid {r['valid']:.0%}."
        )
    if result.get("peers"):
        head = ["data", "peer", "people", "answered", "valid", "limits kept", "both", "distance (ifonly's)", "changes", "ms"]
        body, said = [], []
        for r in result["peers"]:
            if "error" in r:
                body.append([r["case"], r["peer"], "", r["error"], "", "", "", "", "", ""])
                continue
            counts = [str(r[name]) for name in ("people", "answered", "valid", "kept", "both")]
            numbers = (
                ["", ""]
                if r["distance"] is None
                else [f"{r['distance']:.3g} ({r['ours'] or np.nan:.3g})", f"{r['changes']:.1f}"]
            )
            body.append([r["case"], r["peer"], *counts, *numbers, f"{r['ms']:.0f}"])
            said += [f"{r['case']}, {r['peer']}: {error}" for error in r["errors"]]
        parts += ["**Peers** on the first few of the same people", report.table(head, body)]
        if said:
            parts.append("Where they gave no answer:\n\n" + "\n".join(f"- {line}" for line in said))
    return "\n\n".join(parts)


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="recourse", help="of the result: benchmarks/results/NAME.json")
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--peers", nargs="*", default=[], metavar="PYTHON", help="interpreters that have dice-ml or ceml")
    parser.add_argument("--load", action="store_true", help="do not measure: print the result of that name again")
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/recourse-benchmark.md")
    options = options_of(parser)
    file = HERE / "results" / f"{options.name}.json"
    if options.quick:
        result = quick()
    elif options.load:
        result = json.loads(file.read_text())
    else:
        with blas_threads(1):
            cases = [CASES[name]() for name in options.only]
            result = {"machine": machine(commit=False), "cases": [measure(case, prob) for prob in PROBS for case in cases]}
            whole = [case for case in cases if case.name == "Give Me Some Credit"]
            result["many"] = many(whole[0]) if whole else None
            result["peers"] = [row for case in cases for row in peers(case, options.peers)]
        file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        say(f"saved as benchmarks/results/{file.name}")
    text = markdown(result)
    print(report.aligned(text))
    if options.docs and not options.quick:
        report.write_into(PAGE, text)


def quick() -> dict[str, Any]:
    """Everything on a few people of the example that needs no files, with a peer that lets them as they are."""
    case = bank()
    case.people = QUICK
    PEERS[UNCHANGED] = "json"
    cases = [measure(case, prob) for prob in PROBS]
    found = [row for row in peers(case, [sys.executable]) if row["peer"] == UNCHANGED]
    case.table = case.table[:QUICK]
    return {"machine": machine(commit=False), "cases": cases, "many": many(case), "peers": found}


if __name__ == "__main__":
    main()
