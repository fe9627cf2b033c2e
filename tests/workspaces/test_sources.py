import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from proctor.core.errors import InvalidData
from proctor.core.files import cache_root
from proctor.core.task import DirectorySource, RepositorySource
from proctor.workspaces import base_of, check_out
from proctor.workspaces.objects import list_files
from workspaces_world import Files, Repository, base_at, base_from, contents, git, write


def test_a_base_in_the_cache_needs_neither_the_source_nor_the_mirror(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "upstream")
    commit = repository.commit({"a": "1"})
    base = base_at(repository, commit, tmp_path)
    shutil.rmtree(tmp_path / "cache/mirrors")
    for place in (repository.path / ".git").iterdir():
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    assert base_at(repository, commit, tmp_path) == base


def _prepare(url: str, commit: str, cache: Path) -> None:
    base_of(RepositorySource(url=url, commit=commit), cache=cache)


def test_a_killed_preparation_leaves_nothing_broken(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "upstream")
    commit = repository.commit({str(number): os.urandom(10_000) for number in range(300)})
    for delay in (0.02, 0.08, 0.14, 0.2, 0.3):
        cache = tmp_path / f"cache-{delay}"
        victim = multiprocessing.get_context("fork").Process(
            target=_prepare, args=(str(repository.path), commit, cache)
        )
        victim.start()
        time.sleep(delay)
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        base = base_of(RepositorySource(url=str(repository.path), commit=commit), cache=cache)
        git(base.git_dir, "fsck", "--strict")
        assert len(list_files(base.git_dir, commit)) == 300
        assert not [place.name for place in cache.rglob("*.partial")]


def test_a_directory_becomes_one_commit_that_is_the_same_everywhere(tmp_path: Path) -> None:
    files: Files = {"a": "1\n", "dir/b": "2\n", "link": Path("a"), ".gitignore": "ignored\n", "ignored": "but given\n"}
    first = base_of(DirectorySource(path=str(write(tmp_path / "one", files))), cache=tmp_path / "cache-1")
    second = base_of(DirectorySource(path=str(write(tmp_path / "two", files))), cache=tmp_path / "cache-2")
    assert first.facts == second.facts
    check_out(first, tmp_path / "workspace")
    assert contents(tmp_path / "workspace") == contents(tmp_path / "one")
    assert (
        git(tmp_path / "workspace", "log", "--format=%an <%ae> %at %s") == "Proctor <proctor@localhost> 946684800 base"
    )


def test_a_directory_that_changed_gives_another_base(tmp_path: Path) -> None:
    first = base_from(tmp_path, {"a": "1"})
    assert base_from(tmp_path, {}) == first
    (tmp_path / "source/a").chmod(0o600)
    second = base_from(tmp_path, {})
    assert second != first
    assert second.commit == first.commit
    assert base_from(tmp_path, {"a": "2"}).commit != first.commit


def test_git_litter_and_things_that_are_not_files_stay_behind(tmp_path: Path) -> None:
    source = write(
        tmp_path / "source",
        {
            "code.py": "x = 1\n",
            "__pycache__/code.pyc": "stale",
            ".git/config": "[core]\n\tfsmonitor = touch /tmp/pwned\n",
            "vendored/.git": "gitdir: /elsewhere\n",
            "vendored/code.c": "int x;\n",
        },
    )
    os.mkfifo(source / "pipe")
    base = base_from(tmp_path, {})
    assert set(list_files(base.git_dir, base.commit)) == {b"code.py", b"vendored/code.c"}


def test_a_symlink_is_copied_as_it_is_and_recorded_when_it_leads_out(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"a": "1", "in": Path("a"), "up/out": Path("../../x"), "root": Path("/etc/passwd")})
    assert set(base.facts.outward_links) == {b"up/out", b"root"}
    check_out(base, tmp_path / "workspace")
    assert contents(tmp_path / "workspace")[b"root"] == ("link", b"/etc/passwd")
    repository = Repository(tmp_path / "upstream")
    commit = repository.commit({"in": Path("a"), "up/out": Path("../../x")})
    assert base_at(repository, commit, tmp_path).facts.outward_links == (b"up/out",)


def test_an_empty_directory_is_a_base_too(tmp_path: Path) -> None:
    base = base_from(tmp_path, {})
    check_out(base, tmp_path / "workspace")
    assert git(tmp_path / "workspace", "status", "--porcelain") == ""


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="no such directory"):
        base_of(DirectorySource(path=str(tmp_path / "nothing")), cache=tmp_path / "cache")


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("PROCTOR_CACHE", raising=False)
    assert cache_root() == Path("/home/ada/.cache/proctor")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == Path("/xdg/proctor")
    monkeypatch.setenv("PROCTOR_CACHE", "/mine")
    assert cache_root() == Path("/mine")


def test_relative_paths_mean_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(tmp_path / "upstream")
    commit = repository.commit({"a": "1"})
    monkeypatch.chdir(tmp_path)
    base = base_of(RepositorySource(url="upstream", commit=commit), cache=Path("cache"))
    check_out(base, Path("workspace"))
    assert git(tmp_path / "workspace", "status", "--porcelain") == ""
    assert {place.name for place in tmp_path.iterdir()} == {"upstream", "cache", "workspace"}
