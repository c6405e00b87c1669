"""A model file of LIBLINEAR's (the text that ``train`` and ``save_model`` write).

Its two-class logistic solvers give ``p(label₁) = 1/(1 + exp(−w·x))``, with ``label₁`` the first label in the file, and with
``x`` followed by the constant ``bias`` where that is not negative. Several classes are one logistic regression each, whose
probabilities LIBLINEAR divides by their sum: no softmax. The solvers of support vector machines have scores and no
probabilities: their model is ``hard``, and predicts the class with the largest score, as LIBLINEAR does.
"""

import numpy as np

from ifonly.model import LinearWeights, Model
from ifonly.model.errors import UnsupportedModelError, reading

__all__ = ["MAGIC", "read"]

MAGIC = b"solver_type "  # how every model file begins

LOGISTIC = ("L2R_LR", "L1R_LR", "L2R_LR_DUAL")  # -s 0, 6, 7
SCORES = ("L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L2R_L1LOSS_SVC_DUAL", "MCSVM_CS", "L1R_L2LOSS_SVC")  # -s 1, 2, 3, 4, 5


def read(data: bytes) -> Model:
    """The text of a model file."""
    with reading("it is damaged, or no model file of LIBLINEAR's", KeyError, ValueError):
        head, found, rest = data.partition(b"\nw\n")
        if not found:
            raise ValueError("it has no line “w”, after which the weights come")
        lines = dict(line.split(" ", 1) for line in head.decode("ascii").splitlines())
        solver, K, D, bias = lines["solver_type"], int(lines["nr_class"]), int(lines["nr_feature"]), float(lines["bias"])
        labels = [int(label) for label in lines.get("label", "").split()]
        weights = np.array(rest.split(), dtype=np.float64)
        if solver not in LOGISTIC + SCORES:
            raise UnsupportedModelError(f"the solver {solver} makes no classifier; expected {', '.join(LOGISTIC + SCORES)}")
        if K < 2 or len(labels) != K:
            raise ValueError(f"it has {K} classes and {len(labels)} labels")
        if solver in LOGISTIC and K > 2:
            raise UnsupportedModelError(
                f"LIBLINEAR's {solver} with {K} classes is one-vs-rest, {K} logistic regressions whose probabilities are "
                "divided by their sum: that is not a softmax. Fit a multinomial one, such as scikit-learn's LogisticRegression"
            )
        n_rows, n_lines = 1 if K == 2 and solver != "MCSVM_CS" else K, D + (bias >= 0)
        if D < 1 or weights.size != n_lines * n_rows:
            raise ValueError(f"it has {weights.size} weights; expected {n_lines} × {n_rows}")
    W = weights.reshape(n_lines, n_rows).T
    b = (W[:, D:] * bias).sum(axis=1)  # of no column where the model has no bias
    towards = -1 if n_rows == 1 else 1  # the one row of two classes is towards the first label, ours towards the second
    return LinearWeights(towards * W[:, :D], towards * b, labels, solver in SCORES).model()
