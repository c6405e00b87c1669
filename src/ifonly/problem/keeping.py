"""Values that keep what engines work out for them; what is kept is no part of the value."""

from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from typing import Any

__all__ = ["Keeping"]


class Keeping:
    """For frozen dataclasses."""

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        return {}

    def keep(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was made under this key before, or is made now."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def __getstate__(self: Any) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}
