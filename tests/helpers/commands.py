"""Commands as users run them: some rows, and a process of its own."""

import os
import subprocess
import sys

CSV = """id,age,loans,income,duration
007,31,2,900,36
008,45,1,1500,24
009,x,1,100,24
010,52,3,
011,28,0,800,12
"""


def ifonly_process(arguments, **options):
    command = [sys.executable, "-m", "ifonly", *arguments]
    env = {**os.environ, "COLUMNS": "100", "PYTHONUNBUFFERED": ""}  # unbuffered, Python takes half a write for a whole one
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **options)
