"""What pyproject.toml says of the extras: which packages each one installs."""

import re
import tomllib

from helpers.data import ROOT

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
PACKAGES = {
    "sklearn": "scikit-learn",
    "cupy": "cupy-cuda12x",
}  # what is imported → what is installed, where the names differ by more than a dash
WITH = {"fastapi": ("starlette", "pydantic"), "scikit-learn": ("joblib",)}  # what comes along and is imported too


def packages(*extras: str) -> set[str]:
    """What extras install, with those they are made of."""
    found = set()
    for needed in [needed for extra in extras for needed in EXTRAS[extra]]:
        name, inner = re.findall(r"^([\w.-]+)(?:\[([\w,-]+)\])?", needed)[0]
        found |= packages(*inner.split(",")) if name == "ifonly" else {name, *WITH.get(name, ())}
    return found


def package(module: str) -> str:
    """The package that a module is installed with."""
    top = module.partition(".")[0]
    return PACKAGES.get(top, top.replace("_", "-"))
