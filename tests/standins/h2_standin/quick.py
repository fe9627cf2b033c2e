"""The commands that are run most, without what takes Python long to import: a test may run hundreds of them."""

import os
import sys

VERSION = "v0.3.2-standin"


def quick(arguments: list[str]) -> bool:
    """Run a command if it is a simple case of these; whether it was."""
    if arguments == ["version"]:
        print(VERSION)
        return True
    if len(arguments) != 2 or arguments[0] not in {"status", "stop"}:
        return False
    kind, name = arguments
    reply = _ask(f"{os.environ.get('H2_DIR', '')}/sockets/agent.{name}.sock", kind)
    if reply is None:
        return False  # whatever is wrong, the other way finds the words for it
    if kind == "stop":
        print(f"Stopped {name}.")
    else:
        import json

        print(json.dumps(json.loads(reply)["agent"], indent=2))
    return True


def _ask(path: str, kind: str) -> bytes | None:
    import _socket  # what `socket` wraps, at a fifth of its price

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
        connection.send(b'{"type": "%s"}\n' % kind.encode())
        received = b""
        while not received.endswith(b"\n"):
            chunk = connection.recv(65536)
            if not chunk:
                return None
            received += chunk
    except OSError:
        return None
    finally:
        connection.close()
    return received if received.startswith(b'{"ok": true') else None


def main() -> None:
    if not quick(sys.argv[1:]):
        from h2_standin.cli import main as whole

        whole()
