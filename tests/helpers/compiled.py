"""Kernels compiled once, before the workers of a run start: otherwise each of them would compile the same for a minute."""

import subprocess
import sys

MAKE = """
import numpy as np
from ifonly import Actions, Model, invert
rng = np.random.default_rng(0)
X, box = rng.normal(size=(50, 6)), {"bounds": (-9, 9)}
yes_or_no = Model.binary(rng.normal(size=6), 0.0)
"""
KERNELS = {
    "one_multiplier": "invert(yes_or_no, X, 1, actions=Actions(integer=[0], **box), backend='cpu')",
    "lanes": "invert(Model(rng.normal(size=(4, 6)), np.zeros(4)), X, 1, backend='cpu')",
    "lanes, two classes": "invert(yes_or_no, X, 1, backend='cpu')",
    "intervals": "invert(yes_or_no, X, 1, actions=Actions(**box), backend='cpu')",
    "few_and_rest": "invert(Model(rng.normal(size=(400, 400)), np.zeros(400)), np.ones((2, 400)), 1, backend='cpu')",
}


def compile_kernels():
    """One process for each; what fails here fails in the tests, which say why."""
    commands = [[sys.executable, "-c", MAKE + question] for question in KERNELS.values()]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
    for process in running:
        process.wait()
