"""How an environment's first process gets its program: over its own socket, compiled.

Nothing of Proctor needs to be shown inside for it, and no space compiles anything.
"""

import functools
from pathlib import Path
from typing import Final

from proctor.environments.inside import wire

_MODULES: Final = ("__init__", "wire", "loop", "processes", "keyring", "relay", "init")

BOOTSTRAP_SCRIPT: Final = """\
import _socket, marshal, sys
control = _socket.socket(fileno=int(sys.argv[1]))
def receive(size):
    data = b""
    while len(data) < size:
        piece = control.recv(size - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data
for name, code in marshal.loads(receive(int.from_bytes(receive(8), "little"))):
    module = sys.modules[name] = type(sys)(name)
    module.__package__, module.__path__ = "inside", []
    exec(code, module.__dict__)
sys.modules["inside.init"].main(control, sys.argv[2:])
"""


@functools.cache
def init_program() -> bytes:
    """What `START` waits for."""
    folder = Path(__file__).parent / "inside"
    modules = []
    for module in _MODULES:
        file = folder / f"{module}.py"
        name = "inside" if module == "__init__" else f"inside.{module}"
        modules.append((name, compile(file.read_bytes(), str(file), "exec", optimize=2)))
    return wire.pack_request(tuple(modules))
