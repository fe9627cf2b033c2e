import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from proctor.cli.dispatch import dispatch
from stored_runs import small_run


def test_for_other_machines_the_address_has_the_name_of_this_one_and_a_token(tmp_path: Path) -> None:
    small_run(tmp_path)
    command = [sys.executable, "-m", "proctor", "view", "--host", "0.0.0.0", "--port", "0", "--results", str(tmp_path)]
    with subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        address = urlsplit(serving.stdout.readline().strip())
        assert address.hostname == socket.gethostname().lower()
        assert address.query.startswith("token=")
        there = f"http://127.0.0.1:{address.port}/"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(there)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(f"{there}?{address.query}") as page:
            assert "toy/run-001" in page.read().decode()
        with opener.open(f"{there}run/toy/run-001") as page:
            assert "org/one" in page.read().decode()
        serving.send_signal(signal.SIGINT)
        assert serving.wait() == 0


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    small_run(tmp_path, name="nightly")
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "sentence", "code"),
    [
        (["--host", ""], "--host is empty", 2),
        (["--host", "203.0.113.9"], "cannot listen on port 8707 of 203.0.113.9", 12),
        (["--token", "dummy"], "--token is for --host", 2),
        (["--bundle", "file/site"], "no folder can be made here", 2),
        (["--bundle", "."], "it is there already, and is not empty", 2),
        (["nightl"], "there is no run 'nightl'; did you mean 'nightly'?", 2),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    options: list[str], sentence: str, code: int, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["view", *options, "--results", str(world)]) == code
    assert sentence in capsys.readouterr().err
