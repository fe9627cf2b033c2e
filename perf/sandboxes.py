"""How long sandboxes take, against `cp -r` and `rm -rf` of the same trees in the same run.

    python perf/sandboxes.py [COUNT]

The last table shows that a list grows linearly, and that sockets on which nobody listens cost it next to nothing.
"""

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from cli_args import number_arguments

from proctor.sandboxes import Sandboxes
from proctor.sandboxes.agent_sockets import TIMEOUT

DEAD_SOCKETS = 4


def milliseconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def for_each(action: Callable[[str], object], names: Iterable[str]) -> Callable[[], None]:
    def run() -> None:
        for name in names:
            action(name)

    return run


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


def socket_in(home: Path, name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    directory = os.open(home / "sockets", os.O_RDONLY)
    listener.bind(f"/proc/self/fd/{directory}/{name}")
    os.close(directory)
    return listener


def operations(folder: Path, count: int) -> None:
    account = folder / "account"
    account.mkdir()
    (account / ".claude.json").write_text(json.dumps({"oauthAccount": {"accountUuid": "0", "emailAddress": "dummy"}}))
    (account / ".credentials.json").write_text(json.dumps({"claudeAiOauth": {"accessToken": "dummy"}}))
    store = Sandboxes(folder / "sandboxes")
    copies = folder / "copies"
    copies.mkdir()
    names = [f"bench-{i}" for i in range(1, count + 1)]

    create = milliseconds(for_each(lambda name: store.create(name, preset="opus", auth_from=account), names))
    copy = milliseconds(for_each(lambda name: run("cp", "-r", store.root / name, copies / name), names))
    listing = milliseconds(store.list)
    find = milliseconds(lambda: subprocess.run(["ls", "-lR", store.root], check=True, stdout=subprocess.DEVNULL))
    reset = milliseconds(for_each(store.reset, names))
    remove = milliseconds(for_each(lambda name: run("rm", "-rf", copies / name), names))
    again = milliseconds(for_each(lambda name: run("cp", "-r", store.root / name, copies / name), names))
    destroy = milliseconds(for_each(store.destroy, names))
    remove_again = milliseconds(for_each(lambda name: run("rm", "-rf", copies / name), names))

    rows = [
        ("create", create, "cp -r", copy),
        ("list", listing, "ls -lR", find),
        ("reset", reset, "rm -rf and cp -r", remove + again),
        ("destroy", destroy, "rm -rf", remove_again),
    ]
    print(f"{count} sandboxes, milliseconds each")
    print(f"{'':10}{'proctor':>10}   {'':18}{'shell':>10}{'ratio':>8}")
    for name, ours, other, theirs in rows:
        print(f"{name:10}{ours / count:10.2f}   {other:18}{theirs / count:10.2f}{ours / theirs:8.2f}")


def lists(folder: Path, counts: tuple[int, ...]) -> None:
    store = Sandboxes(folder / "lists")
    print(f"\na list, with {DEAD_SOCKETS} dead sockets in each sandbox")
    print(f"{'sandboxes':>10}{'ms':>10}{'ms each':>10}")
    made = 0
    for count in counts:
        for made in range(made + 1, count + 1):  # noqa: B020 - the count goes on where it was
            box = store.create(f"bench-{made}", preset="opus")
            for i in range(DEAD_SOCKETS):
                socket_in(box.home, f"agent.dead-{i}.sock").close()
        best = min(milliseconds(store.list) for _ in range(5))
        print(f"{count:10}{best:10.1f}{best / count:10.3f}")
    with (
        socket_in(store.root / "bench-1", "agent.hangs-1.sock") as first,
        socket_in(box.home, "agent.hangs.sock") as last,
    ):
        first.listen()
        last.listen()
        hanging = milliseconds(store.list)
    print(f"{'2 hang':>10}{hanging:10.1f}            (each is given {TIMEOUT:g} s, all at once)")


def main() -> None:
    (count,) = number_arguments(__doc__, count=100)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="perf-") as folder:
        operations(Path(folder), count)
        lists(Path(folder), (count // 4, count // 2, count))


main()
