"""The questions that a user asks: `invert` for an answer, `path` for all of them along λ, `ask` for many of the same kind."""

import pickle
import warnings
from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from ifonly.answers.many import Counterfactuals, Path
from ifonly.answers.one import Counterfactual
from ifonly.engines import choose, drive
from ifonly.model import Model
from ifonly.model.errors import InputError
from ifonly.model.readers import as_model
from ifonly.native import compiled
from ifonly.problem.actions import Actions
from ifonly.problem.asked import Asked
from ifonly.problem.conditions import Conditions
from ifonly.problem.cost import Cost
from ifonly.problem.question import Backend, Question
from ifonly.problem.results import Result

if TYPE_CHECKING:
    from ifonly.problem.policy import Policy

__all__ = ["Ask", "ask", "invert", "path"]

KEPT = 1024  # questions of one model
DEFAULT_LAMS = np.geomspace(1e3, 1e-5, 100)  # the paper's range, section 3.5


class _Options(TypedDict, total=False):
    """The keyword arguments of `invert`, for type checkers."""

    lam: ArrayLike | None
    prob: ArrayLike | None
    margin: float | None
    tol: float | None
    start: ArrayLike | Literal["source"] | None
    max_iter: int | None
    cost: Cost | None
    actions: Actions | None
    max_changes: int | None
    joint: bool
    gap: float | None
    time_limit: float | None
    node_limit: int | None
    backend: Backend
    threads: int | None
    out: np.ndarray | None
    progress: bool | None
    policy: "Policy | str | PathLike[str] | None"


class _Series(Protocol):
    """A row of a pandas frame."""

    @property
    def index(self) -> Any: ...
    def to_frame(self, name: Any = ...) -> Any: ...


class _Frame(Protocol):
    """A frame of any library."""

    @property
    def columns(self) -> Any: ...


_Row = Mapping[str, Any] | Sequence[float] | _Series  # one source, by its type; of an array the type does not tell
_Rows = Sequence[Mapping[str, Any]] | Sequence[Sequence[float]] | _Frame


class Ask:
    """A question that was put to a model, checked and prepared once: call it with rows, as often as there are rows.

    Made by :func:`ifonly.ask`. A value: it can be pickled and sent elsewhere.

    Attributes
    ----------
    model : Model
    asked : Asked
        The question as engines take it.

    """

    def __init__(
        self, model: Any, question: Question, policy: "Policy | str | PathLike[str] | None" = None, *, along: bool = False
    ) -> None:
        self.model: Model = as_model(model)
        if policy is not None:
            # The model in its words, and the question within its limits; those of a path leave its goal open.
            from ifonly.problem.policy import Policy

            house = Policy.of(policy)
            self.model, question = house.named(self.model), house.put(self.model, question, along=along)
        self.asked = Asked.of(self.model, question)

    @property
    def question(self) -> Question:
        """What is asked, with its defaults filled in."""
        return self.asked.question

    @property
    def conditions(self) -> Conditions | None:
        """The cost and limits; None for a free problem."""
        return self.asked.conditions

    @property
    def classes(self) -> np.ndarray | None:
        """The indices of the classes of which any will do, where a set was given."""
        return self.asked.among(single=True)

    @property
    def per_source(self) -> int:
        """How many answers there are for each source, at most."""
        return self.question.n or self.asked.per_source

    @property
    def row_by_row(self) -> bool:
        """Whether the rows of a table are solved one after the other, in milliseconds each, and not side by side."""
        return choose(self.asked).row_by_row

    def at(self, **changed: Any) -> "Ask":
        """The same with another ``target``, ``lam`` or ``prob``, time limit or backend: what was prepared is shared."""
        other = copy(self)
        other.asked = self.asked.at(**changed)
        return other

    def within(self, seconds: float) -> "Ask":
        """The same with so many seconds for each source; of a problem without limits, which takes none, the same."""
        return self if self.conditions is None else self.at(time_limit=seconds)

    @overload
    def __call__(self, x: _Row, *, out: None = None, progress: bool | None = None) -> Counterfactual: ...
    @overload
    def __call__(self, x: _Rows, *, out: np.ndarray | None = None, progress: bool | None = None) -> Counterfactuals: ...
    @overload
    def __call__(self, x: Any, *, out: np.ndarray | None = None, progress: bool | None = None) -> Any: ...
    def __call__(self, x: Any, *, out: np.ndarray | None = None, progress: bool | None = None) -> Any:
        """The answer for a row, or the answers for a table; ``out`` and ``progress`` as for :func:`ifonly.invert`."""
        asked, sources, found, prob, of, *menu = drive.run(self.asked, x, out=out, progress=progress)
        if isinstance(found, Result):
            return Counterfactual(asked.model, sources, found, prob, conditions=asked.conditions)
        complete, cheapest = menu
        more = {"conditions": asked.conditions, "of": of, "complete": complete, "cheapest": cheapest}
        return Counterfactuals(asked.model, sources, found, prob, **more)

    def path(self, x: Any, *, lams: ArrayLike | None = None) -> Path:
        """The answers for many λ, as :func:`ifonly.path` gives them."""
        asked, sources, found, *_ = drive.follow(self.asked, x, _lams(self.model, lams))
        return Path(asked.model, sources, found, conditions=asked.conditions, of=np.zeros(len(found), np.intp), asked=asked)

    def __repr__(self) -> str:
        return f"Ask({self.model!r}, {self.question!r})"


def ask(model: Any, target: Any = None, *, policy: "Policy | str | PathLike[str] | None" = None, **question: Any) -> Ask:
    """A question for a model, checked and prepared once; what it returns is called with rows.

    Parameters
    ----------
    model, target, policy
        As for :func:`invert`.
    **question
        ``lam``, ``prob``, ``margin``, ``cost``, ``actions`` and all other fields of :class:`Question`.

    Returns
    -------
    Ask
        ``ask(…)(row)`` is a :class:`Counterfactual`, ``ask(…)(table)`` are :class:`Counterfactuals`, ``ask(…).path(row)`` is a
        :class:`Path`.

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], classes=["refused", "approved"])
    >>> approve = ifonly.ask(model, "approved", prob=0.9)
    >>> approve([2.0, 1.0]).x.round(3).tolist(), len(approve([[2.0, 1.0], [3.0, 0.0]]))
    ([0.401, 2.599], 2)

    """
    unknown = sorted(set(question) - set(Question.__dataclass_fields__))
    if unknown:
        raise InputError(f"there is no argument {unknown[0]!r}; a question has {sorted(Question.__dataclass_fields__)}")
    return Ask(model, Question(target, **question), policy)


@overload
def invert(model: Any, x: Any, target: Any = None, *, n: int, **options: Unpack[_Options]) -> Counterfactuals: ...
@overload
def invert(model: Any, x: _Row, target: Any = None, **options: Unpack[_Options]) -> Counterfactual: ...
@overload
def invert(model: Any, x: _Rows, target: Any = None, **options: Unpack[_Options]) -> Counterfactuals: ...
@overload
def invert(model: Any, x: Any, target: Any = None, *, n: int | None = None, **options: Unpack[_Options]) -> Any: ...
def invert(
    model: Any,
    x: Any,
    target: Any = None,
    *,
    lam: ArrayLike | None = None,
    prob: ArrayLike | None = None,
    margin: float | None = None,
    tol: float | None = None,
    start: ArrayLike | Literal["source"] | None = None,
    max_iter: int | None = None,
    cost: Cost | None = None,
    actions: Actions | None = None,
    max_changes: int | None = None,
    n: int | None = None,
    joint: bool = False,
    gap: float | None = None,
    time_limit: float | None = None,
    node_limit: int | None = None,
    backend: Backend = "auto",
    threads: int | None = None,
    out: np.ndarray | None = None,
    progress: bool | None = None,
    policy: "Policy | str | PathLike[str] | None" = None,
) -> Any:
    """The smallest change of ``x`` that gives the decision you want, exactly.

    Solves ``min (λ/2)‖x' − x‖² − ln p_target(x')`` for a given ``lam``, or ``min ‖x' − x‖`` subject to
    ``p_target(x') ≥ prob``. Give at most one of the two; neither means ``prob=0.5``, "flip the decision".

    Parameters
    ----------
    model : Model or fitted estimator
        Whatever :func:`as_model` understands.
    x : array_like of shape (D,) or (N, D), CSR, a pandas row or frame, or an iterator of tables
        The source, or N sources, in the units the model takes. Arrays (and memory maps) are referred to, not copied: do
        not change them before the answers' ``x`` is read. An iterator's tables are kept unless ``out`` is given.
    target : label, N labels, a set of labels, None, "other", "opposite" or "all"
        The wanted class. None or "other" is the nearest class that is not predicted now (least distance with ``prob``,
        least objective with ``lam``); "opposite" the same for models with two classes; "all" asks for every class in
        turn (N·K answers, class by class for each source). Of a set (for one source also a list) the nearest is taken, and
        ``target`` of the answer says which.
    lam : float > 0 or N of them
        What the squared distance is multiplied with: the *larger*, the closer to ``x``.
    prob : float in (0, 1) or N of them
        The probability to reach. The answer satisfies ``p_target ≥ prob`` as the estimator itself evaluates it, to the
        last bit; for ``prob ≥ 0.5`` it is therefore predicted as the target. If no input reaches it, the status is
        UNREACHABLE and the answer the best there is.
    margin : float ≥ 0
        Instead of a probability: how far the target's score has to be ahead of every other; 0 is just ahead. For models without
        probabilities (``LinearSVC``) it is the only question, and 0 the default.
    tol : float, optional
        Stop at ``‖∇E‖ ≤ tol``. By default the answer is exact to working precision, which costs one iteration more.
        With ``prob`` it only decides the status.
    start : array_like of x's shape, or "source"
        Where to start (with ``lam`` only). The iterates are then those of the paper's Newton method, from that point (or
        the nearest to it that differs from x by rows of A, where all iterates lie after the first full step).
        By default a start near the answer is computed, and the method is of third order.
    max_iter : int, optional
        Limit on Newton iterations; by default 100, with limits 300.
    cost : Cost, optional
        What a change costs; by default the Euclidean distance in the space the classifier sees.
    actions : Actions, optional
        What may change. The answer keeps every limit to the last bit, or its status is UNREACHABLE and ``blocking`` says which
        limits are in the way.
    max_changes : int, optional
        At most so many features move (a group of one-hot columns counts as one).
    n : int, optional
        Several plans for one source (:class:`Counterfactuals`): the optimum, and after it those that change a set of features
        of which no part is enough, each the cheapest with its set, the cheapest first; ``complete`` says whether these are all.
        With ``lam``: answers that differ in which features move.
    joint : bool
        Deprecated: use :func:`ifonly.joint.invert`.
    gap, time_limit, node_limit : float, float, int
        Where the search over whole numbers, categories and few changes stops: at this relative gap (by default none but
        rounding), after so many seconds, after so many nodes (for each source; with ``n``, for all plans together). What it has
        by then has status STOPPED.
    backend : {"auto", "reference", "cpu", "cuda"}
        "cpu" is compiled, "cuda" runs on a GPU (extra ``gpu``; a table of CuPy or PyTorch that is there stays there; of limits
        it takes those on features one by one, with ``lam`` or ``prob``), "reference" is an array program; "auto" takes what the
        number of rows makes worth it: a few one by one, many with the array program, very many with the compiled one. All give
        the same answers to rounding.
    threads : int, optional
        For the "cpu" backend; by default as many as this process may use.
    out : ndarray of shape (N, D), optional
        Where to write ``x``, chunk by chunk; may be a memory map. The answers' ``x`` is then this array.
    progress : bool, optional
        Whether to show a progress bar (tqdm); by default if the call runs longer than two seconds in a terminal or
        notebook.
    policy : Policy or its file, optional
        What a house has decided once: what may change, what it costs, what is wanted, and what things are called. Limits given
        besides are added to its own; an argument that it forbids is refused.

    Returns
    -------
    Counterfactual
        For one source; :class:`Counterfactuals` for a table of N sources, even of one.

    Raises
    ------
    InputError
        For input of the wrong kind, and for an argument that could have no effect on this question. In a table, a row that is
        not finite does not raise: its status is INVALID, its answer NaN.

    Examples
    --------
    >>> import numpy as np, ifonly
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0], classes=["a", "b", "c"])
    >>> cf = ifonly.invert(model, [2.0, 0.0], "b", prob=0.8)
    >>> cf.x.round(4).tolist(), float(cf.proba[1].round(4))
    ([0.4355, 1.8835], 0.8)
    >>> cf.gap < 1e-20
    True

    """
    goal, limits, stops = (target, lam, prob, margin), (cost, actions, max_changes, n), (gap, time_limit, node_limit)
    question = (*goal, tol, start, max_iter, *limits, *stops, backend, threads)
    if joint:
        from ifonly import joint as together

        warnings.warn("joint=True is now ifonly.joint.invert(model, x, targets, …)", DeprecationWarning, stacklevel=2)
        if out is not None:
            raise InputError("out is for tables; joint=True takes one source, leave it out")
        if policy is not None:
            raise InputError("policy does not go with joint=True; leave one of them out")
        return together.answer(model, x, Question(*question))
    put = _again(as_model(model), question) if policy is None else Ask(model, Question(*question), policy)
    return put(x, out=out, progress=progress)


def path(
    model: Any,
    x: Any,
    target: Hashable = None,
    *,
    lams: ArrayLike | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    cost: Cost | None = None,
    actions: Actions | None = None,
    max_changes: int | None = None,
    backend: Backend = "auto",
    policy: "Policy | str | PathLike[str] | None" = None,
) -> Path:
    """The answers of :func:`invert` for many λ, from far to near (section 3.5 of the paper).

    Parameters
    ----------
    model, x, target, tol, max_iter, cost, actions, max_changes, backend
        As for :func:`invert`, for one source. ``target=None`` is the class nearest at ``prob=0.5``.
    lams : array_like, optional
        The values of λ; by default 100 from 1e3 down to 1e-5.
    policy : Policy or its file, optional
        As for :func:`invert`; the probability that it wants is left open, since a path goes through all of them.

    Examples
    --------
    >>> import ifonly
    >>> model = ifonly.Model([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 0.0], classes=["a", "b", "c"])
    >>> path = ifonly.path(model, [2.0, 0.0], "b")
    >>> len(path), round(path.at_prob(0.8).distance, 4)
    (100, 2.4485)

    """
    model = as_model(model)
    values = _lams(model, lams)
    limits = {"cost": cost, "actions": actions, "max_changes": max_changes}
    question = Question(target, float(values[0]), tol=tol, max_iter=max_iter, backend=backend, **limits)
    return Ask(model, question, policy, along=True).path(x, lams=values)


def _again(model: Model, question: tuple[Any, ...]) -> Ask:
    """The same as before where the same is asked of a model again, as in a loop: to check it takes as long as to answer.

    Limits and costs are compared by content, since what they hold may have been changed in place (but not a matrix: that takes
    longer than to prepare it again); types too, as 1 may be one label and True another, and the row loops that there are. The
    first time only the key is kept: a model of one call is gone as soon as nobody has it.
    """
    cost, actions = question[7:9]
    if getattr(cost, "matrix", None) is not None:
        return Ask(model, Question(*question))
    try:
        ground = None if cost is actions is None else pickle.dumps((cost, actions))
        key = (*question[:7], ground, *question[9:], *map(type, question), compiled())
        kept = model.memo.setdefault("asked", {})
        found = kept.get(key)
    except (TypeError, AttributeError, pickle.PicklingError):  # an array, a list, what cannot be pickled
        return Ask(model, Question(*question))
    if found is None:
        found = Ask(model, Question(*question))
        if len(kept) >= KEPT:
            kept.clear()
        kept[key] = found if key in kept else None
    return found


def _lams(model: Model, lams: ArrayLike | None) -> np.ndarray:
    """The λ of a path, where the model has one."""
    if model.hard:
        raise InputError("path needs probabilities, and this model has only scores; see invert(..., margin=)")
    try:
        values = DEFAULT_LAMS if lams is None else np.array(lams, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        values = np.zeros(0)
    if not (values.size and np.isfinite(values).all() and (values > 0).all()):
        raise InputError(f"lams must be one or more numbers > 0; got {lams}")
    return values
