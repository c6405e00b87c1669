"""Peers of `recourse.py`, each in an interpreter of its own: one task as JSON from stdin, answers as JSON to stdout.

Run by `recourse.py` with a Python that has ``dice-ml`` or ``ceml`` installed; needs nothing of `ifonly`. The classifier comes
as weights per number and per category, so that all judge by the same one.
"""

import json
import signal
import sys
import time
import warnings

import numpy as np


class Classifier:
    """P(yes) of rows with categories written out, as DiCE wants it."""

    classes_ = np.array([0, 1])

    def __init__(self, task):
        self.numbers, self.categories, self.offset = task["numbers"], task["categories"], task["offset"]

    def predict_proba(self, frame):
        score = np.full(len(frame), self.offset)
        for name, weight in self.numbers.items():
            score += weight * frame[name].astype(float).to_numpy()
        for name, weights in self.categories.items():
            score += frame[name].astype(str).map(weights).fillna(0.0).to_numpy(dtype=float)
        p = 1 / (1 + np.exp(-score))
        return np.column_stack([1 - p, p])

    def predict(self, frame):
        return (self.predict_proba(frame)[:, 1] > 0.5).astype(int)


def dice(task, method):
    import dice_ml
    import pandas as pd

    frame = pd.DataFrame(task["rows"])
    model = Classifier(task)
    frame["outcome"] = model.predict(frame)
    data = dice_ml.Data(dataframe=frame, continuous_features=list(task["numbers"]), outcome_name="outcome")
    explainer = dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method=method)
    people = pd.DataFrame(task["people"])

    def one(i):
        options = {"features_to_vary": task["vary"], "permitted_range": task["ranges"][i], "random_seed": 0, "verbose": False}
        if method == "genetic":
            options.pop("random_seed")
        found = explainer.generate_counterfactuals(people.iloc[[i]], total_CFs=1, desired_class=1, **options)
        table = found.cf_examples_list[0].final_cfs_df
        if table is None or not len(table):
            return None
        row = table.iloc[0].drop("outcome")
        return {name: float(v) if name in task["numbers"] else str(v) for name, v in row.items()}

    return one


def ceml(task):
    from ceml.sklearn import generate_counterfactual
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(multi_class="multinomial")  # ceml takes no other; for two classes the label is the same
    model.coef_, model.intercept_ = np.array([task["weights"]]), np.array([task["bias"]])
    model.classes_, model.n_features_in_ = np.array([0, 1]), len(task["weights"])

    def one(i):
        options = {"features_whitelist": task["free"], "regularization": "l2", "C": 1e-3, "return_as_dict": True}
        found = generate_counterfactual(model, np.array(task["scaled"][i]), y_target=1, **options)
        return np.asarray(found["x_cf"]).ravel().tolist()

    return one


def main():
    task = json.load(sys.stdin)
    answers, times, errors = [], [], []

    def late(*_):
        raise TimeoutError(f"no answer in {task['seconds']} s")

    signal.signal(signal.SIGALRM, late)
    out, sys.stdout = sys.stdout, sys.stderr  # the peers print
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if task["peer"] == "as they are":
            one = task["people"].__getitem__
        elif task["peer"] == "ceml":
            one = ceml(task)
        else:
            one = dice(task, task["peer"].split()[1])
        for i in range(len(task["people"])):
            start = time.perf_counter()
            signal.alarm(task["seconds"])
            try:
                answers.append(one(i))
                errors.append(None)
            except Exception as error:
                answers.append(None)
                errors.append(f"{type(error).__name__}: {error}".splitlines()[0][:200])
            finally:
                signal.alarm(0)
            times.append(time.perf_counter() - start)
    json.dump({"answers": answers, "seconds": times, "errors": errors}, out)


if __name__ == "__main__":
    main()
