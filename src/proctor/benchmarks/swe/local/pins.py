"""The official conda environment of an instance, as what pip can install and what only conda has.

The list is a freeze: every package of the image is in it, with its version. Most Python packages are in its ``pip``
part; those that conda brought are recognised by their build (``py39h06a4308_0``, ``pyhd8ed1ab_0``). The rest is native:
what the interpreter needs, which any interpreter has, and libraries, which wheels carry with them.
"""

import re
from typing import Any, Final

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.user_files import parse_yaml

# The same loader in C is ten times as fast, and there are thousands of these files.
_ENTRY: Final = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)={1,2}(?P<version>[^=\s]+)(?:=(?P<build>\S+))?")
_PYTHON_BUILD: Final = re.compile(r"(^|_|-|cpu|cuda)py(\d|_|h|g|$)")
_TOOLS: Final = ("pip", "setuptools", "wheel")
# What conda calls otherwise than PyPI does.
_RENAMED: Final = {
    "antlr-python-runtime": "antlr4-python3-runtime",
    "brotli-python": "brotli",
    "iris": "scitools-iris",
    "matplotlib-base": "matplotlib",
    "msgpack-python": "msgpack",
    "nbconvert-core": "nbconvert",
    "py-xgboost": "xgboost",
    "pyarrow-core": "pyarrow",
    "pyqt": "pyqt5",
    "pytables": "tables",
    "python-eccodes": "eccodes",
    "python-fastjsonschema": "fastjsonschema",
    "python-graphviz": "graphviz",
    "python-tzdata": "tzdata",
    "python-xxhash": "xxhash",
    "pytorch": "torch",
    "seaborn-base": "seaborn",
}
# Parts of other packages, of which pip knows the whole.
_PARTS: Final = frozenset(
    {"backports", "dask-core", "numpy-base", "pybind11-global", "pygments-base", "sip", "qt-main", "pyqt5-sip"}
)
_CONDA_ONLY: Final = frozenset(
    {"cdat_info", "cdms2", "cdtime", "distarray", "esmpy", "libcf", "pynio", "pyngl", "pygobject", "wxpython"}
)


class Pins(Record):
    """What an environment is made of.

    Attributes:
        python: the interpreter, as ``3.9``.
        tools: pip, setuptools and wheel, which are installed first.
        packages: the other packages, as requirements that pip takes, in their own order.
        conda_only: Python packages that PyPI does not have, or not in a form that can be installed just so.
    """

    python: str
    tools: tuple[str, ...]
    packages: tuple[str, ...]
    conda_only: tuple[str, ...]


def read_pins(text: str, *, where: object) -> Pins:
    """Read an ``environment.yml``.

    Raises:
        InvalidData: it is none, or names no interpreter.
    """
    try:
        document: Any = parse_yaml(text)
    except ValueError as error:
        raise InvalidData(f"its environment is not valid YAML: {error}", where=where) from error
    entries = document.get("dependencies") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise InvalidData("its environment lists no dependencies", where=where)
    conda, pip = _split(entries)
    if "python" not in conda:
        raise InvalidData("its environment names no Python", where=where)
    python = ".".join(conda.pop("python")[0].split(".")[:2])
    wanted = {name: version for name, (version, build) in conda.items() if _PYTHON_BUILD.search(build)}
    only = tuple(sorted(name for name in wanted if name in _CONDA_ONLY))
    found: dict[str, str] = {}
    for name, version in wanted.items():
        if name not in _PARTS and name not in _CONDA_ONLY:
            public = _RENAMED.get(name, name)
            found.setdefault(_normal(public), f"{public}=={version}")
    for requirement in pip:
        found[_normal(re.split(r"[=<>!~\[@ ]", requirement, maxsplit=1)[0])] = requirement
    tools = tuple(found.pop(name) for name in _TOOLS if name in found)
    return Pins(python=python, tools=tools, packages=tuple(found.values()), conda_only=only)


def _split(entries: list[Any]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    conda: dict[str, tuple[str, str]] = {}
    pip: list[str] = []
    for entry in entries:
        if isinstance(entry, dict):
            pip += [str(requirement) for requirement in entry.get("pip") or ()]
        elif match := _ENTRY.fullmatch(str(entry).strip()):
            conda[match["name"]] = (match["version"], match["build"] or "")
    return conda, pip


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
