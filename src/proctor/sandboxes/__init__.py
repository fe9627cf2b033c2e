"""Agents' reusable homes. A sandbox is an H2_DIR made from a preset; only its credentials survive a reset.

    sandboxes = Sandboxes()
    box = sandboxes.create("b1", preset="opus")
    box.run(["h2", "version"])
    sandboxes.reset("b1")

`proctor.sandboxes.pytest_plugin` gives the same to other projects' tests as fixtures.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from proctor.sandboxes.auth import AuthState
    from proctor.sandboxes.layout import default_root
    from proctor.sandboxes.sandbox import Sandbox, SandboxRow
    from proctor.sandboxes.store import Sandboxes

__all__ = ["AuthState", "Sandbox", "SandboxRow", "Sandboxes", "default_root"]

# Imported when asked for: the pytest plugin is in this package, and every pytest run on the machine imports it.
_MODULES: Final = {
    "AuthState": "auth",
    "SandboxRow": "sandbox",
    "Sandbox": "sandbox",
    "Sandboxes": "store",
    "default_root": "layout",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
