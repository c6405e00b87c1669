"""Pictures of answers: objects that hold their data and draw them with ``plot(ax=None)``; matplotlib is imported then."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from ifonly.answers import Counterfactual, Counterfactuals, Path
from ifonly.model.errors import InputError
from ifonly.show.numbers import housed
from ifonly.show.plot.charts import Convergence, Curve, HeatMap, Trajectories, Waterfall
from ifonly.show.plot.images import Grid, Images, Strip

__all__ = ["Convergence", "Curve", "Grid", "HeatMap", "Images", "Strip", "Trajectories", "Waterfall"]
__all__ += ["picture"]

KINDS: dict[type, dict[str, Callable[..., Any]]] = {  # by what is drawn
    Counterfactual: {"changes": Waterfall.of, "image": Images.of, "convergence": Convergence.of},
    Counterfactuals: {"heat map": HeatMap.of, "images": Grid.of},
    Path: {"curve": Curve.of, "features": Trajectories.of, "strip": Strip.of},
}


@housed
def picture(answers: Counterfactual | Counterfactuals | Path, kind: str | None, **options: Any) -> Any:
    """A picture of the kind that was asked for, or of the first that has all these options."""
    kinds = next(kinds for of, kinds in KINDS.items() if isinstance(answers, of))
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
