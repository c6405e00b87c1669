"""``ifonly demo``: the main job, on data that scikit-learn carries."""

from ifonly.adopt import as_model
from ifonly.api import invert
from ifonly.cli.explain import described
from ifonly.cli.options import Json, emit

__all__ = ["demo"]


def demo(as_json: Json = False) -> None:
    """See it at work, on an example that needs no files.

    [bold]Example[/bold]

    ifonly demo
    """
    import ifonly.demo

    if not as_json:
        ifonly.demo.main()
        return
    case = ifonly.demo.refused_applicant()
    model = as_model(case.estimator)
    cf = ifonly.demo.one(invert(model, case.x, "benign", prob=0.8))
    emit(described(model, case.x, cf, None))
