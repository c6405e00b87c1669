"""CUDA sources as plain C++: compiled for the host, with a header that stands for the device."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from ifonly.native.cuda_source import code

HERE = Path(__file__).parent
FLAGS = "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-D__CUDACC__"


class HostSource:
    """The source ``name``.cu in a folder, between a header of this one and what else a test needs."""

    def __init__(self, folder, name, header, more=""):
        self.folder, self.compiler = folder, shutil.which("g++") or shutil.which("c++")
        if self.compiler is None:
            pytest.skip(f"needs a C++ compiler (g++ or c++) to compile {name}.cu for the host")
        self.text = folder / f"{name}.cpp"
        self.text.write_text((HERE / header).read_text(encoding="utf-8") + code(name) + more, encoding="utf-8")

    def library(self, *options):
        """Compiled with these options, once."""
        library = self.folder / f"{abs(hash(options))}.so"
        if not library.exists():
            subprocess.run([self.compiler, *FLAGS, *options, str(self.text), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))
