"""Table 1: the data sets and the training and test error of their classifiers, beside the paper's."""

from experiments.datasets import BINARY, HUNDRED, SOFTMAX, load
from experiments.store import Row

# The paper's table 1 and, for MNIST-100, appendix D: its name there, D, training and test error in per cent.
PAPER = {
    "MNIST": ("MNIST", 784, 6.14, 7.35),
    "RCV1": ("RCV1", 47236, 7.03, 14.52),
    "DeepFeat64": ("VGGFeat64", 8192, 0.00, 6.54),
    "DeepFeat320": ("VGGFeat256", 131072, 0.00, 3.07),
    "MNIST-100": ("MNIST-100", 1568, 1.92, 22.12),
    "MNIST K=2": ("MNIST (K = 2)", 784, 15.60, 15.83),
    "RCV1 K=2": ("RCV1 (K = 2)", 47236, 4.23, 5.16),
    "DeepFeat320 K=2": ("VGGFeat256 (K = 2)", 131072, 0.00, 0.44),
}
NOTE = "errors in per cent; no number of test rows where the classifier came trained"


def measure(*, full: bool) -> list[Row]:
    """One row per classifier."""
    rows = []
    for name in (*SOFTMAX, HUNDRED, *BINARY):
        data = load(name)
        paper = PAPER.get(name, (None, None, None, None))
        rows.append(
            {
                "dataset": name,
                "D": data.model.n_features,
                "K": data.model.n_classes,
                "n_train": data.n_train,
                "n_test": data.n_test or None,
                "train_error": data.train_error,
                "test_error": data.test_error,
                **dict(zip(("paper_name", "paper_D", "paper_train_error", "paper_test_error"), paper, strict=True)),
            }
        )
    return rows
