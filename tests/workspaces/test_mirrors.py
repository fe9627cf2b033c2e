import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proctor.core.errors import InvalidData, RetryableError
from proctor.core.files import file_lock
from proctor.workspaces.mirrors import canonical_url, checked_commit, ensure_mirror, mirror_name
from slow_tests import scaled
from waiting import until
from workspaces_world import Repository, git, write


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "upstream")


def test_a_commit_in_the_mirror_is_used_without_asking_the_source(repository: Repository, tmp_path: Path) -> None:
    first, second = repository.commit({"a": "1"}), repository.commit({"a": "2"})
    mirror = ensure_mirror(str(repository.path), second, cache=tmp_path / "cache")
    shutil.rmtree(repository.path)
    assert ensure_mirror(str(repository.path), first, cache=tmp_path / "cache") == mirror
    assert git(mirror, "cat-file", "-p", f"{first}:a") == "1"


def test_a_commit_that_came_later_is_fetched_into_the_same_mirror(repository: Repository, tmp_path: Path) -> None:
    first = repository.commit({"a": "1"})
    mirror = ensure_mirror(str(repository.path), first, cache=tmp_path / "cache")
    later = repository.commit({"a": "2"})
    repository.git("tag", "v2")
    assert ensure_mirror(str(repository.path), later, cache=tmp_path / "cache") == mirror
    assert git(mirror, "tag", "--list") == "v2"


def test_a_commit_on_no_branch_is_fetched_by_its_id(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a": "1"})
    lost = repository.commit({"a": "2"})
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    mirror = ensure_mirror(str(repository.path), lost, cache=tmp_path / "cache")
    assert git(mirror, "cat-file", "-t", lost) == "commit"


def test_packs_of_a_repository_on_this_machine_are_copied_and_never_shared(
    repository: Repository, tmp_path: Path
) -> None:
    commit = repository.commit({"a": "1"})
    repository.git("tag", "v1")
    repository.git("update-ref", "refs/stash", commit)
    repository.git("repack", "-adq")
    mirror = ensure_mirror(str(repository.path), commit, cache=tmp_path / "cache")
    (source,) = (repository.path / ".git/objects/pack").glob("*.pack")
    copied = mirror / "objects/pack" / source.name
    assert copied.read_bytes() == source.read_bytes()
    assert copied.stat().st_ino != source.stat().st_ino
    assert git(mirror, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main", "refs/tags/v1"]
    assert str(repository.path) not in (mirror / "config").read_text()
    assert not (mirror / "hooks").exists()


def test_many_objects_without_a_pack_are_packed_in_the_mirror(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({str(number): f"{number}\n" for number in range(600)})
    mirror = ensure_mirror(str(repository.path), commit, cache=tmp_path / "cache")
    assert list((mirror / "objects/pack").glob("*.pack"))
    assert not list((mirror / "objects").glob("[0-9a-f][0-9a-f]"))


def test_what_a_repository_borrows_from_another_is_in_the_mirror(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({"a": "1"})
    git(tmp_path, "clone", "--quiet", "--shared", "upstream", "borrower")
    mirror = ensure_mirror(str(tmp_path / "borrower"), commit, cache=tmp_path / "cache")
    shutil.rmtree(repository.path)
    assert git(mirror, "cat-file", "-p", f"{commit}:a") == "1"


def test_a_repository_that_lacks_objects_is_bad_data(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit({"a": "1"})
    repository.git("config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:none", f"file://{repository.path}", str(partial))
    with pytest.raises(InvalidData, match="cannot fetch it"):
        ensure_mirror(str(partial), commit, cache=tmp_path / "cache")


def test_a_commit_that_is_nowhere_is_named(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a": "1"})
    with pytest.raises(InvalidData, match="has no commit 1111111111"):
        ensure_mirror(str(repository.path), "1" * 40, cache=tmp_path / "cache")


def test_pull_requests_are_not_mirrored(repository: Repository, tmp_path: Path) -> None:
    first = repository.commit({"a": "1"})
    repository.git("update-ref", "refs/pull/1/head", repository.commit({"a": "fix"}))
    repository.git("reset", "--quiet", "--hard", first)
    mirror = ensure_mirror(str(repository.path), first, cache=tmp_path / "cache")
    assert "pull" not in git(mirror, "for-each-ref")


@pytest.mark.parametrize("commit", ["main", "abc123", "", "g" * 40, "1" * 41])
def test_a_commit_is_given_in_full(commit: str) -> None:
    with pytest.raises(InvalidData, match="not a full commit id"):
        checked_commit(commit, where="x")


def test_a_commit_in_capitals_is_the_same_commit() -> None:
    assert checked_commit(" " + "AB" * 20, where="x") == "ab" * 20


@pytest.mark.parametrize("url", ["--upload-pack=touch /tmp/x", "ext::sh -c id", "/nonexistent/repo", "nothing-here"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidData):
        canonical_url(url)


def test_a_directory_that_is_no_repository_is_bad_data_not_bad_luck(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(InvalidData, match="does not appear to be a git repository"):
        ensure_mirror(str(tmp_path / "plain"), "1" * 40, cache=tmp_path / "cache")
    assert [place.suffix for place in (tmp_path / "cache/mirrors").iterdir()] == [".lock"]


def test_a_login_in_the_address_shows_neither_in_names_nor_in_errors(tmp_path: Path) -> None:
    secret = "http://user:dummy-token@127.0.0.1:9/x.git"
    assert mirror_name(secret) == mirror_name("http://127.0.0.1:9/x.git")
    assert "dummy" not in mirror_name(secret)
    with pytest.raises(RetryableError) as caught:
        ensure_mirror(secret, "1" * 40, cache=tmp_path / "cache")
    assert "dummy" not in caught.value.sentence


def test_two_addresses_never_share_a_mirror() -> None:
    assert mirror_name("https://host/a/b") != mirror_name("https://host/a_b")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A git server on this machine that writes a line for every connection."""
    if not (Path(git(tmp_path, "--exec-path")) / "git-daemon").exists():
        pytest.skip("this git comes without git-daemon")
    for _ in range(20):
        daemon, port = _start_daemon(tmp_path)
        until(lambda: daemon.poll() is not None or _answers(port), "the start of git daemon")  # noqa: B023 - it ends here
        if daemon.poll() is None:
            break
    else:
        pytest.fail(f"git daemon did not start: {(tmp_path / 'daemon.log').read_text()}")
    try:
        yield f"git://127.0.0.1:{port}/upstream"
    finally:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()


def _start_daemon(folder: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """A git daemon at a port that was free a moment ago; where it is no longer, the daemon ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--reuseaddr", "--listen=127.0.0.1", f"--port={port}", "--export-all", f"--base-path={folder}"]
    with (folder / "daemon.log").open("wb") as log:
        return subprocess.Popen(["git", "daemon", "--verbose", *options], stderr=log, start_new_session=True), port


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _fetches(tmp_path: Path) -> int:
    return (tmp_path / "daemon.log").read_text().count("Request upload-pack")


def test_a_server_is_asked_once_for_all_its_commits(repository: Repository, server: str, tmp_path: Path) -> None:
    commits = [repository.commit({"a": str(number)}) for number in range(3)]
    for commit in commits * 2:
        ensure_mirror(server, commit, cache=tmp_path / "cache")
    assert _fetches(tmp_path) == 1


def _mirror_in_another_process(server: str, commit: str, cache: Path) -> None:
    ensure_mirror(server, commit, cache=cache)


def test_processes_that_want_the_same_repository_fetch_it_once(
    repository: Repository, server: str, tmp_path: Path
) -> None:
    commit = repository.commit({str(number): "x" * 1000 for number in range(200)})
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_mirror_in_another_process, args=(server, commit, tmp_path / "cache")) for _ in range(5)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 5
    assert _fetches(tmp_path) == 1


@pytest.mark.parametrize("delays", scaled((0.02, 0.1), (0.01, 0.03, 0.06, 0.1, 0.2)), ids=len)
def test_a_killed_clone_leaves_nothing_that_the_next_one_trips_over(
    repository: Repository, tmp_path: Path, delays: tuple[float, ...]
) -> None:
    commit = repository.commit({str(number): os.urandom(20_000) for number in range(300)})
    expected = repository.objects()
    for delay in delays:
        cache = tmp_path / f"cache-{delay}"
        victim = multiprocessing.get_context("fork").Process(
            target=_mirror_in_another_process, args=(str(repository.path), commit, cache)
        )
        victim.start()
        time.sleep(delay)
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        mirror = ensure_mirror(str(repository.path), commit, cache=cache)
        assert set(git(mirror, "rev-list", "--objects", "--no-object-names", commit).split()) == expected
        git(mirror, "fsck", "--strict")
        assert sorted(place.name for place in (cache / "mirrors").iterdir()) == [mirror.name, f"{mirror.name}.lock"]


def test_a_fetch_that_outlives_us_keeps_the_mirror_to_itself(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository.commit({"a": "1"})
    write(tmp_path / "bin", {"git": f"#!/bin/sh\necho $$ > {tmp_path}/fetching\nexec sleep 600\n"})
    (tmp_path / "bin/git").chmod(0o755)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{path}")
    victim = multiprocessing.get_context("fork").Process(
        target=_mirror_in_another_process, args=(str(repository.path), commit, tmp_path / "cache")
    )
    victim.start()
    until(lambda: (tmp_path / "fetching").exists() and (tmp_path / "fetching").read_text(), "the fetch")
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    monkeypatch.setenv("PATH", path)
    (lock,) = (tmp_path / "cache/mirrors").glob("*.lock")
    with pytest.raises(RetryableError, match="in use"), file_lock(lock, what="the mirror", wait_seconds=0):
        pass
    os.kill(int((tmp_path / "fetching").read_text()), signal.SIGKILL)
    ensure_mirror(str(repository.path), commit, cache=tmp_path / "cache")


def test_locks_of_a_killed_fetch_do_not_block_the_next(repository: Repository, tmp_path: Path) -> None:
    first = repository.commit({"a": "1"})
    mirror = ensure_mirror(str(repository.path), first, cache=tmp_path / "cache")
    write(mirror, {"packed-refs.lock": "", "refs/heads/main.lock": "", "objects/pack/tmp_pack_x": "half"})
    later = repository.commit({"a": "2"})
    assert ensure_mirror(str(repository.path), later, cache=tmp_path / "cache") == mirror
    assert not list(mirror.rglob("*.lock"))
