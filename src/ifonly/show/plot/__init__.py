"""Pictures of answers: objects that hold their data and draw them with ``plot(ax=None)``; matplotlib is imported then."""

from inspect import signature
from typing import Any

from ifonly.answers import Counterfactual, Counterfactuals, Path
from ifonly.model.errors import InputError
from ifonly.show.plot.changes import HeatMap, Waterfall
from ifonly.show.plot.curves import Convergence, Curve, Trajectories
from ifonly.show.plot.images import Grid, Images, Strip

__all__ = ["Convergence", "Curve", "Grid", "HeatMap", "Images", "Strip", "Trajectories", "Waterfall"]
__all__ += ["of_many", "of_one", "of_path"]


def of_one(cf: Counterfactual, kind: str | None, **options: Any) -> Waterfall | Images | Convergence:
    """A picture of one answer; by default its changes, with ``shape`` the image."""
    return _drawn({"changes": Waterfall.of, "image": Images.of, "convergence": Convergence.of}, kind, cf, options)


def of_many(cfs: Counterfactuals, kind: str | None, **options: Any) -> HeatMap | Grid:
    """A picture of many answers; by default a map of them, with ``shape`` the nearest as images."""
    return _drawn({"heat map": HeatMap.of, "images": Grid.of}, kind, cfs, options)


def of_path(path: Path, kind: str | None, **options: Any) -> Curve | Trajectories | Strip:
    """A picture of a path; by default its curve, with ``shape`` a strip of images."""
    return _drawn({"curve": Curve.of, "features": Trajectories.of, "strip": Strip.of}, kind, path, options)


def _drawn(kinds: dict[str, Any], kind: str | None, answers: Any, options: dict[str, Any]) -> Any:
    """A picture of the kind that was asked for, or of the first that has all these options."""
    takes = {name: list(signature(make).parameters)[1:] for name, make in kinds.items()}
    if kind is None:
        kind = next((name for name in kinds if set(options) <= set(takes[name])), next(iter(kinds)))
    if kind not in kinds:
        raise InputError(f"the kinds of pictures are {', '.join(map(repr, kinds))}; got {kind!r}")
    if unknown := [name for name in options if name not in takes[kind]]:
        for_others = [repr(name) for name in kinds if unknown[0] in takes[name]]
        has = f"it is for {' and '.join(for_others)}" if for_others else f"it has {', '.join(takes[kind]) or 'none'}"
        raise InputError(f"a picture of the kind {kind!r} has no option {unknown[0]!r}; {has}")
    return kinds[kind](answers, **options)
