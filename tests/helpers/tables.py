"""Tables with columns of all kinds, for tests of pipelines: real ones where they are at hand, and one that is made."""

import numpy as np
import pandas as pd

from helpers.data import data_file

ADULT = [
    "age",
    "workclass",
    "weight",
    "education",
    "years",
    "marital",
    "occupation",
    "relationship",
    "race",
    "sex",
    "gain",
    "loss",
]
ADULT += ["hours", "country", "income"]


def german():
    """German credit: 7 columns of whole numbers and 13 of codes; good or bad."""
    frame = pd.read_csv(data_file("german", "german_credit.csv"))
    return frame, np.where(frame.pop("Class") == 1, "good", "bad")


def adult(n=3000):
    """Adult: 6 columns of whole numbers and 8 of words, some missing; at most 50 000 dollars, or more."""
    path = data_file("adult", "adult.data.gz")
    frame = pd.read_csv(path, header=None, names=ADULT, skipinitialspace=True, na_values="?", nrows=n)
    return frame, frame.pop("income").to_numpy()


def made(n=600, n_classes=2, seed=0):
    """Customers: numbers (some missing, some skewed), whole numbers, yes and no, and words (some missing, some rare)."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(8, 0.7, n).round(2),
            "debt": rng.gamma(2.0, 800.0, n).round(2),
            "age": rng.integers(18, 80, n),
            "children": rng.integers(0, 5, n),
            "owner": rng.random(n) < 0.4,
            "job": rng.choice(["clerk", "engineer", "nurse", "cook", "diver"], n, p=[0.4, 0.25, 0.2, 0.13, 0.02]),
            "city": rng.choice(["Bonn", "Kiel", "Ulm"], n),
            "plan": rng.integers(1, 4, n),
            "note": rng.random(n).round(3),
        }
    )
    score = np.log(frame["income"]) - 8 - 0.0005 * frame["debt"] + 0.02 * (frame["age"] - 45) + 0.8 * frame["owner"]
    score += frame["job"].map({"clerk": -0.5, "engineer": 1.0, "nurse": 0.2, "cook": -0.8, "diver": 0.0}) + 0.3 * frame["plan"]
    score += rng.logistic(size=n)
    labels = np.array(["low", "middle", "high", "top"])[:n_classes] if n_classes > 2 else np.array(["no", "yes"])
    y = labels[np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)]
    frame.loc[rng.random(n) < 0.05, "debt"] = np.nan
    frame.loc[rng.random(n) < 0.05, "job"] = None
    return frame, y
