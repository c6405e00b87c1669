"""What the user gets: one counterfactual, many, or a path of them, and records of them."""

from ifonly.answers.many import Counterfactuals, Path
from ifonly.answers.one import Counterfactual

__all__ = ["Counterfactual", "Counterfactuals", "Path"]
