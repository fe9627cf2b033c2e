import os
from pathlib import Path

import pytest

from proctor.core.errors import InfrastructureError, RetryableError
from proctor.workspaces.git import GitFailed, make_repository, run_git, stream_git
from waiting import limits, until
from workspaces_world import Repository, git, write


def test_the_repository_made_by_hand_is_one_that_git_takes(tmp_path: Path) -> None:
    make_repository(tmp_path / "store")
    assert run_git(["rev-parse", "--is-bare-repository"], git_dir=tmp_path / "store").output == b"true\n"
    assert run_git(["fsck", "--strict"], git_dir=tmp_path / "store").code == 0


def test_neither_the_users_nor_the_machines_nor_the_environments_settings_reach_our_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "home", {".gitconfig": "[core]\n\tautocrlf = true\n", ".config/git/ignore": "*\n"})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.autocrlf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent/index")
    make_repository(tmp_path / "store")
    listed = run_git(["config", "--list", "--show-origin"], git_dir=tmp_path / "store").output.decode()
    assert "core.autocrlf=false" in listed
    assert "core.autocrlf=true" not in listed
    assert {line.split("\t")[0] for line in listed.splitlines()} == {
        f"file:{Path(git_module_config())}",
        f"file:{tmp_path}/store/config",
    }


def git_module_config() -> str:
    import proctor.workspaces.git as module

    return str(module._CONFIG)


def test_a_hook_of_the_repository_is_not_run(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repo")
    commit = repository.commit({"a": "1"})
    hook = repository.path / ".git/hooks/reference-transaction"
    write(repository.path, {".git/hooks/reference-transaction": f"#!/bin/sh\ntouch {tmp_path}/ran\n"})
    hook.chmod(0o755)
    run_git(["update-ref", "refs/heads/x", commit], git_dir=repository.path / ".git")
    assert not (tmp_path / "ran").exists()
    git(repository.path, "update-ref", "refs/heads/y", commit)
    assert (tmp_path / "ran").exists(), "the hook would have run for anyone else"


def test_a_failure_says_what_git_said(tmp_path: Path) -> None:
    make_repository(tmp_path / "store")
    with pytest.raises(GitFailed, match="git cat-file failed: fatal: Not a valid object name nothing"):
        run_git(["cat-file", "-p", "nothing"], git_dir=tmp_path / "store")


def test_a_machine_without_git_is_told_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(tmp_path / "store")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="git is not installed"):
        run_git(["status"], git_dir=tmp_path / "store")


def _slow_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that starts a child, prints its number, and never ends."""
    write(tmp_path / "bin", {"git": f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\necho started\nwait\n"})
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    make_repository(tmp_path / "store")
    return tmp_path / "child"


def _has_started(child: Path) -> bool:
    return child.exists() and child.read_text().endswith("\n")


def _wait_until_gone(child: Path) -> None:
    state = Path(f"/proc/{child.read_text().strip()}/stat")

    def is_gone() -> bool:
        try:
            return state.read_text().split()[2] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    until(is_gone, "the end of git's child")


def test_a_git_that_hangs_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _slow_git(tmp_path, monkeypatch)
    for seconds in limits(0.5):
        with pytest.raises(RetryableError, match=f"git fetch did not end within {seconds:g} s"):
            run_git(["fetch"], git_dir=tmp_path / "store", timeout=seconds)
        if _has_started(child):
            break
    _wait_until_gone(child)


def test_a_git_that_hangs_while_it_is_read_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _slow_git(tmp_path, monkeypatch)
    read: list[bytes] = []
    for seconds in limits(0.5):
        with (
            pytest.raises(RetryableError, match="did not end within"),
            stream_git(["log"], git_dir=tmp_path / "store", timeout=seconds) as lines,
        ):
            read.extend(lines)
        if read:
            break
    assert read == [b"started\n"]
    _wait_until_gone(child)


def _stop(_: bytes) -> None:
    raise KeyboardInterrupt


def test_a_reader_that_is_interrupted_ends_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = _slow_git(tmp_path, monkeypatch)
    with pytest.raises(KeyboardInterrupt), stream_git(["log"], git_dir=tmp_path / "store", timeout=60) as lines:
        _stop(next(lines))
    _wait_until_gone(child)
