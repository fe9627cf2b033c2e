"""The records that every part of Proctor shares, the errors, and the base classes of plugins. Imports no other package.

A task is prepared, solved, collected, graded, recorded, reported: a `Task` becomes a submission, a `Verdict`, a
`TaskResult`.
"""

from collections.abc import Callable, Iterable, Mapping

VERSION = "0.1.0"


def lazy_names(package: str, modules: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package: its names, imported when first used, by the modules that have them."""
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> object:
        import importlib

        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return find
