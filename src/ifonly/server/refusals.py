"""What the server says no with: one shape for all errors, with a code, words, and the field they are about."""

from typing import Any

__all__ = ["RefusedError", "failure"]

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    413: "too_large",
    415: "unsupported_media_type",
    421: "misdirected",
    422: "invalid",
    431: "too_large",
    500: "internal",
    503: "busy",
    504: "timeout",
}


class RefusedError(Exception):
    """A request that is not answered: why, which field it is about, and the HTTP status that says so."""

    def __init__(self, message: str, field: str | None = None, status: int = 422, **headers: str) -> None:
        super().__init__(message)
        self.message, self.field, self.status = message, field, status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def failure(status: int, message: str, field: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"code": CODES.get(status, "error"), "message": message, "field": field}}
