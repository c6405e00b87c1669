"""The example that comes with the package: German credit, as a frame, a fitted pipeline, and sensible actions.

Needs scikit-learn and pandas. The data are Hans Hofmann's, CC BY 4.0; see ``data/README.md``.
"""

from importlib.resources import files
from typing import Any

from ifonly.model.extras import needing
from ifonly.problem.actions import Actions

__all__ = ["CATEGORIES", "NUMBERS", "actions", "applicants", "pipeline"]

NUMBERS = ["duration", "amount", "rate", "residence", "age", "credits", "dependents"]
CATEGORIES = [
    "account", "history", "purpose", "savings", "employment", "status", "debtors", "property", "plans", "housing", "job",
    "telephone", "foreign",
]  # fmt: skip


def applicants() -> Any:
    """A thousand applicants, as a pandas frame; the last column, ``decision``, is "approved" or "refused"."""
    with needing("the credit example needs pandas", "sklearn"):
        import pandas as pd
    with (files("ifonly.cli") / "data" / "german_credit.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def pipeline(train: Any) -> Any:
    """A logistic regression on scaled numbers and one-hot categories, fitted to a frame of applicants."""
    with needing("the credit example needs scikit-learn", "sklearn"):
        from sklearn.compose import ColumnTransformer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), NUMBERS), ("categories", OneHotEncoder(handle_unknown="ignore"), CATEGORIES)]
    )
    classifier = make_pipeline(columns, LogisticRegression(C=0.1, max_iter=1000))
    return classifier.fit(train[NUMBERS + CATEGORIES], train["decision"])


def actions() -> Actions:
    """What an applicant could do about it: nobody gets younger, the past stays, and to close an account is no advice."""
    past = ["age", "status", "foreign", "history", "purpose", "employment", "residence", "dependents", "credits", "job"]
    return Actions(
        frozen=[*past, "account=no account", "savings=unknown", "property=unknown"],
        bounds={"duration": (4, 72), "amount": (250, None), "rate": (1, 4)},
        integer=["duration", "amount", "rate"],
    )
