import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from proctor.sandboxes.agent_sockets import STATUS, list_endpoints, send_request
from waiting import PATIENCE, limits

Serve = Callable[[Path, str, bytes | None], None]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts sockets that answer every request with the given bytes, or never if None."""
    with ExitStack() as opened:

        def start(home: Path, name: str, answer: bytes | None) -> None:
            listener = opened.enter_context(listening(home, name))
            if answer is not None:
                threading.Thread(target=answer_all, args=(listener, answer), daemon=True).start()

        yield start


def listening(home: Path, name: str) -> socket.socket:
    (home / "sockets").mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    directory = os.open(home / "sockets", os.O_RDONLY)
    listener.bind(f"/proc/self/fd/{directory}/{name}")
    os.close(directory)
    listener.listen()
    return listener


def answer_all(listener: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            request = connection.makefile("rb").readline()
            assert json.loads(request) == STATUS
            connection.sendall(answer)


def dead(home: Path, name: str) -> None:
    listening(home, name).close()


def answering(home: Path, timeout: float = PATIENCE) -> list[str]:
    return sorted(endpoint.file for endpoint in send_request(list_endpoints(home), STATUS, timeout=timeout))


def test_those_that_answer_well_are_counted(tmp_path: Path, serve: Serve) -> None:
    serve(tmp_path, "agent.good.sock", b'{"ok":true,"agent":{}}\n')
    serve(tmp_path, "agent.no-newline.sock", b'{"ok":true}')
    serve(tmp_path, "agent.bad.sock", b'{"ok":false,"error":"x"}\n')
    serve(tmp_path, "agent.odd.sock", b"[1]\n")
    serve(tmp_path, "agent.garbage.sock", b"\xff\xfe\n")
    serve(tmp_path, "agent.closes.sock", b"")
    serve(tmp_path, "bridge.b.sock", b'{"ok":true}\n')
    serve(tmp_path, "agent.other", b'{"ok":true}\n')
    dead(tmp_path, "agent.dead.sock")
    (tmp_path / "sockets" / "agent.file.sock").touch()
    assert answering(tmp_path) == ["agent.good.sock", "agent.no-newline.sock"]


def test_a_home_whose_path_is_too_long_for_a_socket(tmp_path: Path, serve: Serve) -> None:
    home = tmp_path / ("x" * 100) / ("y" * 100)
    serve(home, "agent.a.sock", b'{"ok":true}\n')
    assert answering(home) == ["agent.a.sock"]


def test_many_that_hang_cost_one_timeout_and_dead_ones_nothing(tmp_path: Path, serve: Serve) -> None:
    for i in range(50):
        serve(tmp_path, f"agent.hangs-{i}.sock", None)
        dead(tmp_path, f"agent.dead-{i}.sock")
    serve(tmp_path, "agent.good.sock", b'{"ok":true}\n')
    for seconds in limits(2):
        started = time.monotonic()
        found = answering(tmp_path, timeout=seconds)
        if found:  # it had the time that it needs on a machine as busy as this one
            break
    assert found == ["agent.good.sock"]
    assert 0.95 < (time.monotonic() - started) / seconds < 25  # one after another they would take 50 times as long


def test_an_agent_that_never_stops_writing_does_not_block(tmp_path: Path) -> None:
    with listening(tmp_path, "agent.talks.sock") as listener:

        def talk() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                while True:
                    connection.sendall(b"x" * 65536)

        talker = threading.Thread(target=talk)
        talker.start()
        assert answering(tmp_path, timeout=1) == []
        talker.join()


def test_a_full_queue_does_not_block(tmp_path: Path) -> None:
    with listening(tmp_path, "agent.full.sock") as listener, ExitStack() as opened:
        listener.listen(0)
        for _ in range(5):
            waiting = opened.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            try:
                waiting.connect(listener.getsockname())
            except OSError:
                break
        assert answering(tmp_path, timeout=0.2) == []


def test_more_than_may_be_asked_at_once_are_asked_in_turns(tmp_path: Path, serve: Serve) -> None:
    for i in range(20):
        serve(tmp_path, f"agent.{i}.sock", b'{"ok":true}\n')
    assert len(send_request(list_endpoints(tmp_path), STATUS, batch_size=7)) == 20


def test_planted_symlinks_are_not_followed(tmp_path: Path, serve: Serve) -> None:
    outside, home = tmp_path / "outside", tmp_path / "box"
    serve(outside, "agent.real.sock", b'{"ok":true}\n')
    (home / "sockets").mkdir(parents=True)
    (home / "sockets" / "agent.link.sock").symlink_to(outside / "sockets" / "agent.real.sock")
    assert list_endpoints(home) == []
    (home / "sockets" / "agent.link.sock").unlink()
    (home / "sockets").rmdir()
    (home / "sockets").symlink_to(outside / "sockets")
    assert list_endpoints(home) == []
    assert list_endpoints(tmp_path / "nowhere") == []
