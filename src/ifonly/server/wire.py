"""JSON in and out: bodies to typed questions, answers to bytes, and one shape for all errors: a code, words, and a field."""

from collections.abc import Sequence
from typing import Any, TypeVar

import orjson
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ifonly.model.errors import IfonlyError

__all__ = ["FAILURES", "RefusedError", "answer_to", "decode", "encode", "listed", "shown"]

Body = TypeVar("Body", bound=BaseModel)

SHOWN = 40  # characters of a wrong value

# By HTTP status: its code, and what it means to whoever reads the description of the addresses.
FAILURES = {
    400: ("bad_request", "The body is no JSON."),
    401: ("unauthorized", "A token is needed."),
    403: ("forbidden", "From another site's page."),
    404: ("not_found", "No such thing."),
    408: ("timeout", "The body did not come in time."),
    413: ("too_large", "Too large, or too many rows."),
    415: ("unsupported_media_type", "The body is not said to be JSON."),
    421: ("misdirected", "Not called so."),
    422: ("invalid", "A value is wrong; field says which."),
    503: ("busy", "Too many requests at once: come back after Retry-After seconds."),
    504: ("timeout", "It took too long."),
}
CODES = {status: code for status, (code, _) in FAILURES.items()}
CODES |= {405: "method_not_allowed", 431: "too_large", 500: "internal"}
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}


class RefusedError(Exception):
    """A request that is not answered: why, which field it is about, and the HTTP status that says so."""

    def __init__(self, message: str, field: str | None = None, status: int = 422, headers: Any = None) -> None:
        super().__init__(message)
        self.field, self.status, self.headers = field, status, headers or HEADERS.get(status, {})

    @property
    def body(self) -> bytes:
        """The one shape that all errors have."""
        return encode({"error": {"code": CODES.get(self.status, "error"), "message": str(self), "field": self.field}})


def answer_to(error: Exception) -> Response:
    """What an error says to whoever asked: never more than it should."""
    if isinstance(error, RequestValidationError):
        error = _refusal_of(error.errors()[0], skip=1)
    elif isinstance(error, HTTPException):
        error = RefusedError(str(error.detail).lower(), None, error.status_code, error.headers)
    elif isinstance(error, IfonlyError):
        error = RefusedError(str(error))
    elif isinstance(error, ArithmeticError):
        error = RefusedError("the numbers are too large or too small to compute with")
    elif not isinstance(error, RefusedError):
        error = RefusedError("something went wrong here; the log says what", None, 500)
    return Response(error.body, error.status, error.headers, "application/json")


def decode(kind: TypeAdapter[Body], body: bytes) -> Body:
    """A body as what it should be, or a `RefusedError` that names the first field that is wrong.

    orjson reads numbers in two thirds of the time that pydantic takes, which is asked again where that did not do: it has the
    better words for what is wrong.
    """
    try:
        return kind.validator.validate_python(orjson.loads(body))
    except ValueError:  # of either
        pass
    try:
        return kind.validate_json(body)
    except ValidationError as error:
        raise _refusal_of(error.errors(include_url=False)[0]) from None


def encode(value: Any) -> bytes:
    """JSON; arrays as they are, everything in it is finite."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _refusal_of(error: Any, skip: int = 0) -> RefusedError:
    """What pydantic found, in our words; ``skip`` is how much of the place is not the sender's."""
    field = ".".join(str(part) for part in error["loc"][skip:])
    kind, context = error["type"], error.get("ctx", {})
    if kind == "json_invalid":
        return RefusedError(f"the body is no JSON: {context.get('error', error['msg'])}", None, 400)
    name = field or "the body"
    wrong = _WORDS.get(kind)
    if wrong is None:
        return RefusedError(f"{name}: {error['msg'][:1].lower()}{error['msg'][1:]}", field or None)
    came = "" if kind in ("missing", "extra_forbidden", "too_long", "too_short") else f"; got {shown(error['input'])}"
    return RefusedError(f"{name} {wrong.format(**context)}{came}", field or None, 400 if kind == "finite_number" else 422)


_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "must be a whole number"),
    "int_parsing_size": "must be a whole number of fewer digits",
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "finite_number": "must be a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be text",
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
    "literal_error": "must be {expected}",
    "greater_than": "must be > {gt}",
    "greater_than_equal": "must be ≥ {ge}",
    "less_than": "must be < {lt}",
    "less_than_equal": "must be ≤ {le}",
    "too_long": "may have at most {max_length} entries; it has {actual_length}",
    "too_short": "must have at least {min_length} entries; it has {actual_length}",
}


def shown(v: Any) -> str:
    """What came, in few words; never much of it."""
    if v is None or isinstance(v, bool):
        return {None: "null", True: "true", False: "false"}[v]
    if isinstance(v, (list, dict)):
        return "a list" if isinstance(v, list) else "an object"
    if isinstance(v, int) and v.bit_length() > 64:
        return "a number of very many digits"
    text = repr(v[: SHOWN + 1] if isinstance(v, str) else v)
    return text if len(text) <= SHOWN + 2 else f"{text[:SHOWN]}…"


def listed(names: Sequence[str], most: int) -> str:
    """The first of some names, and whether there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
