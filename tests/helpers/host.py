"""CUDA sources as plain C++: compiled for the host, with a header that stands for the device."""

import ctypes
import shutil
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from helpers.data import ROOT
from ifonly.native.cuda_source import code

HERE = Path(__file__).parent
LIBRARIES = ROOT / "build" / "host"
FLAGS = "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-D__CUDACC__"


class HostSource:
    """The source ``name``.cu between a header of this folder and what else a test needs.

    Libraries are kept in build/host from run to run, by all that they are made of.
    """

    def __init__(self, name, header, more=""):
        self.compiler = shutil.which("g++") or shutil.which("c++")
        if self.compiler is None:
            pytest.skip(f"needs a C++ compiler (g++ or c++) to compile {name}.cu for the host")
        self.text = (HERE / header).read_text(encoding="utf-8") + code(name) + more

    def library(self, *options):
        """Compiled with these options, once."""
        made_of = "\0".join([version(self.compiler), *FLAGS, *options, self.text])
        library = LIBRARIES / f"{sha256(made_of.encode()).hexdigest()[:32]}.so"
        if not library.exists():
            LIBRARIES.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=LIBRARIES) as folder:
                made = Path(folder) / library.name
                command = [self.compiler, *FLAGS, *options, "-x", "c++", "-", "-o", str(made)]
                subprocess.run(command, input=self.text, encoding="utf-8", check=True)
                made.replace(library)
        return ctypes.CDLL(str(library))


@cache
def version(compiler):
    """What a compiler says that it is."""
    return subprocess.run([compiler, "-v"], capture_output=True, text=True, check=True).stderr


def call(library, name, rows, *arguments):
    """An entry of newton.cu, for each row as a block of its own."""
    kinds = {float: ctypes.c_double, int: ctypes.c_int, type(None): ctypes.c_void_p}
    given = [a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else kinds[type(a)](a) for a in arguments]
    block = ctypes.c_uint.in_dll(library, "blockIdx")
    for b in range(rows):
        block.value = b
        getattr(library, name)(ctypes.c_longlong(rows), *given)
