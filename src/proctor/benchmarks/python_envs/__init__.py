"""Python interpreters of this machine, and the virtual environments that benchmarks build from them.

`interpreters` finds Pythons in one search order. `venvs` builds a virtual environment in an environment with network,
keeps it in one cache under one lock, and writes one log per build. Benchmarks mount the result at `VENV_DIR`.
"""

from proctor.benchmarks.python_envs.interpreters import (
    Interpreter,
    choose_interpreter,
    find_interpreter,
    find_interpreters,
    hidden_site_packages,
)
from proctor.benchmarks.python_envs.venvs import VENV_DIR, VenvBuild, build_once, cache_dir, open_build, venv_variables

__all__ = [
    "VENV_DIR",
    "Interpreter",
    "VenvBuild",
    "build_once",
    "cache_dir",
    "choose_interpreter",
    "find_interpreter",
    "find_interpreters",
    "hidden_site_packages",
    "open_build",
    "venv_variables",
]
