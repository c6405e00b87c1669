"""An applicant for credit, and two models that refuse: of two classes and of three."""

import numpy as np
import pytest

from ifonly import Model

NAMES = ["age", "income", "debt", "hours"]
CREDIT = Model.binary([0.02, 0.05, -0.08, 0.03], -3.0, classes=["refused", "approved"], feature_names=NAMES)
GRADES = Model(
    [[0.0, 0.0, 0.0, 0.0], [0.01, 0.05, -0.04, 0.02], [0.02, 0.08, -0.08, 0.03]], [0.5, -1.0, -4.0],
    classes=["refused", "offered", "approved"], feature_names=NAMES,
)  # fmt: skip
PERSON = np.array([30.0, 25.0, 20.0, 35.0])
BOTH = pytest.mark.parametrize("model", [CREDIT, GRADES], ids=["K=2", "K=3"])
