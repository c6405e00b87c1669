"""Pictures of answers: objects that hold their data and draw them with ``plot(ax=None)``; matplotlib is imported then."""

from typing import Any

from ifonly.answers import Counterfactual, Counterfactuals, Path
from ifonly.model.errors import InputError
from ifonly.show.plot.changes import HeatMap, Waterfall
from ifonly.show.plot.curves import Convergence, Curve, Trajectories
from ifonly.show.plot.images import Images, Strip

__all__ = ["Convergence", "Curve", "HeatMap", "Images", "Strip", "Trajectories", "Waterfall", "of_many", "of_one", "of_path"]


def of_one(cf: Counterfactual, kind: str, **options: Any) -> Waterfall | Images | Convergence:
    """A picture of one answer."""
    return _chosen({"changes": Waterfall.of, "image": Images.of, "convergence": Convergence.of}, kind)(cf, **options)


def of_many(cfs: Counterfactuals, kind: str | None, **options: Any) -> HeatMap:
    """A picture of many answers."""
    return _chosen({"heat map": HeatMap.of}, kind or "heat map")(cfs, **options)


def of_path(path: Path, kind: str, **options: Any) -> Curve | Trajectories | Strip:
    """A picture of a path."""
    return _chosen({"curve": Curve.of, "features": Trajectories.of, "strip": Strip.of}, kind)(path, **options)


def _chosen(kinds: dict[str, Any], kind: str) -> Any:
    if kind not in kinds:
        raise InputError(f"the kinds of pictures are {', '.join(map(repr, kinds))}; got {kind!r}")
    return kinds[kind]
