import os
import subprocess
from pathlib import Path

import pytest

from proctor.core.errors import UsageError
from proctor.core.task import RepositorySource
from proctor.workspaces import BaseTree, base_of, check_out
from proctor.workspaces.history import LONGEST_CHAIN
from workspaces_world import Files, Repository, all_objects, base_at, base_from, contents, git, write


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "upstream")


def _workspace(base: BaseTree, tmp_path: Path, name: str = "workspace") -> Path:
    check_out(base, tmp_path / name)
    return tmp_path / name


def _reachable(repository: Repository, *commits: str) -> set[str]:
    return set(repository.git("rev-list", "--objects", "--no-object-names", *commits).split())


def test_the_workspace_has_the_past_and_not_one_object_of_the_future(repository: Repository, tmp_path: Path) -> None:
    commits = [repository.commit({"a": f"{number}\n", f"file{number}": "x\n"}) for number in range(6)]
    base = commits[2]
    repository.git("tag", "light-old", commits[1])
    repository.git("tag", "-a", "-m", "old", "annotated-old", commits[1], date=repository.date - 5 * 86_400)
    repository.git("tag", "-a", "-m", "future", "annotated-future", commits[4])
    repository.git("branch", "fix", commits[5])
    repository.git("checkout", "--quiet", "-b", "side", commits[1])
    repository.commit({"side": "a branch that was never merged\n"})
    (repository.path / "stashed").write_text("stash\n")
    repository.git("stash", "--include-untracked")
    repository.git("notes", "add", "-m", "a note on the base", base)
    workspace = _workspace(base_at(repository, base, tmp_path), tmp_path)

    kept_tag = repository.git("rev-parse", "annotated-old")
    there = all_objects(workspace)
    assert there == _reachable(repository, base) | {kept_tag}
    later = repository.objects() - there
    assert len(later) > 10
    asked = git(workspace, "cat-file", "--batch-check", stdin="\n".join(sorted(later)).encode())
    assert asked.splitlines() == [f"{identity} missing" for identity in sorted(later)]
    assert git(workspace, "log", "--all", "--format=%H").split() == [commits[2], commits[1], commits[0]]
    assert git(workspace, "fsck", "--unreachable", "--no-reflogs", "--strict") == ""
    assert git(workspace, "for-each-ref", "--format=%(refname)").split() == [
        "refs/heads/main",
        "refs/tags/annotated-old",
        "refs/tags/light-old",
    ]
    assert git(workspace, "remote", "-v") == git(workspace, "reflog", "--all") == git(workspace, "stash", "list") == ""
    leftovers = {"ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "logs", "description", "hooks", "worktrees", "modules"}
    assert not leftovers & {place.name for place in (workspace / ".git").iterdir()}
    assert not (workspace / ".git/objects/info/alternates").exists()
    assert str(tmp_path / "cache") not in (workspace / ".git/config").read_text()


def test_the_workspace_is_clean_and_ready_to_commit_in(repository: Repository, tmp_path: Path) -> None:
    base = repository.commit({"a": "1\n", "run.sh": "#!/bin/sh\n", "link": Path("a")})
    workspace = _workspace(base_at(repository, base, tmp_path), tmp_path)
    assert git(workspace, "status", "--porcelain") == ""
    assert git(workspace, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert contents(workspace) == contents(repository.path)
    write(workspace, {"a": "2\n"})
    nobody = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    assert subprocess.run(["git", "commit", "-qam", "mine"], cwd=workspace, env=nobody, check=False).returncode == 0


def test_a_tag_made_after_the_base_on_something_older_is_dropped(repository: Repository, tmp_path: Path) -> None:
    first, base = repository.commit({"a": "1"}), repository.commit({"a": "2"})
    repository.git("tag", "-a", "-m", "release", "in-time", first, date=repository.date)
    repository.git("tag", "-a", "-m", "release", "a-second-late", first, date=repository.date + 1)
    repository.git("tag", "-a", "-m", "again", "tag-of-a-tag", "in-time", date=repository.date)
    workspace = _workspace(base_at(repository, base, tmp_path), tmp_path)
    assert git(workspace, "tag", "--list").split() == ["in-time"]
    assert git(workspace, "describe", "--tags") == f"in-time-1-g{base[:7]}"


def test_bytes_are_left_alone_whatever_the_attributes_ask_for(repository: Repository, tmp_path: Path) -> None:
    files: Files = {
        "crlf.txt": b"one\r\ntwo\n",
        "id.txt": b"$Id$\n",
        "wide.txt": b"text\n",
        "big.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
    }
    repository.commit(files)
    attributes = b"*.txt text eol=crlf ident\nwide.txt working-tree-encoding=UTF-16\n*.bin filter=lfs diff=lfs -text\n"
    blob = repository.git("hash-object", "-w", "--stdin", stdin=attributes)
    repository.git("update-index", "--add", "--cacheinfo", f"100644,{blob},.gitattributes")
    repository.git("commit", "--quiet", "-m", "attributes")
    base = repository.git("rev-parse", "HEAD")
    workspace = _workspace(base_at(repository, base, tmp_path), tmp_path)
    there = contents(workspace)
    assert {os.fsdecode(name): data for name, (_, data) in there.items() if name != b".gitattributes"} == files
    assert git(workspace, "status", "--porcelain") == ""


def test_a_submodule_is_an_empty_directory(repository: Repository, tmp_path: Path) -> None:
    inner = Repository(tmp_path / "inner")
    pinned = inner.commit({"x": "1"})
    repository.commit({".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = /nonexistent\n', "a": "1"})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{pinned},sub")
    repository.git("commit", "--quiet", "-m", "submodule")
    workspace = _workspace(base_at(repository, repository.git("rev-parse", "HEAD"), tmp_path), tmp_path)
    assert (workspace / "sub").is_dir()
    assert not list((workspace / "sub").iterdir())
    assert git(workspace, "status", "--porcelain", "--ignore-submodules=none") == ""


def test_odd_names_come_through(repository: Repository, tmp_path: Path) -> None:
    names = [
        b"a b",
        b"caf\xc3\xa9",
        b"\xff\xfe",
        b"new\nline",
        b'quo"te',
        b"tab\t",
        b"CASE",
        b"case",
        b"-dash",
        b":colon",
    ]
    base = repository.commit({name: name for name in names})
    workspace = _workspace(base_at(repository, base, tmp_path), tmp_path)
    assert {name: data for name, (_, data) in contents(workspace).items()} == {name: name for name in names}


def test_nothing_in_a_workspace_is_shared_with_the_cache(repository: Repository, tmp_path: Path) -> None:
    base = base_at(repository, repository.commit({"a": "1"}), tmp_path)
    first = _workspace(base, tmp_path, "first")
    for place in [place for place in first.rglob("*") if place.is_file()]:
        assert place.stat().st_nlink == 1
        place.chmod(0o644)
        place.write_bytes(b"spoilt")
    second = _workspace(base, tmp_path, "second")
    assert (second / "a").read_bytes() == b"1"
    git(second, "fsck", "--strict")


def test_later_bases_share_the_packs_of_earlier_ones_and_nothing_else(repository: Repository, tmp_path: Path) -> None:
    commits = [repository.commit({f"f{number}": os.urandom(50_000)}) for number in range(6)]
    repository.git("tag", "-a", "-m", "x", "only-then", commits[0], date=repository.date - 5 * 86_400)
    early = base_at(repository, commits[1], tmp_path)
    repository.git("tag", "--delete", "only-then")
    mirror = next(place for place in (tmp_path / "cache/mirrors").iterdir() if place.is_dir())
    git(mirror, "tag", "--delete", "only-then")
    late = base_at(repository, commits[5], tmp_path)
    middle = base_at(repository, commits[3], tmp_path)
    assert set(late.facts.history) > set(early.facts.history)
    assert set(middle.facts.history) > set(early.facts.history), "not the later one's: that holds the future"
    shared = early.git_dir / "objects/pack" / f"{early.facts.history[0]}.pack"
    assert shared.stat().st_nlink == 3
    own = late.git_dir / "objects/pack" / f"{late.facts.history[-1]}.pack"
    assert 190_000 < own.stat().st_size < 210_000, "four of the six files are news to it"
    for base, commit in ((late, commits[5]), (middle, commits[3])):
        assert all_objects(base.git_dir) == _reachable(repository, commit)
        assert all_objects(_workspace(base, tmp_path, commit)) == _reachable(repository, commit)


def test_the_chain_of_shared_packs_has_an_end(repository: Repository, tmp_path: Path) -> None:
    commits = [repository.commit({"a": str(number)}) for number in range(LONGEST_CHAIN + 3)]
    lengths = [len(base_at(repository, commit, tmp_path).facts.history) for commit in commits]
    assert lengths[:LONGEST_CHAIN] == list(range(1, LONGEST_CHAIN + 1))
    assert max(lengths) == LONGEST_CHAIN


def test_a_base_is_never_shared_with_one_that_only_looks_earlier(repository: Repository, tmp_path: Path) -> None:
    trunk = repository.commit({"a": "1"})
    branch = repository.commit({"b": "2"})
    repository.git("checkout", "--quiet", "-b", "other", trunk)
    other = repository.commit({"c": "3"})
    base_at(repository, branch, tmp_path)
    assert all_objects(base_at(repository, other, tmp_path).git_dir) == _reachable(repository, other)


def test_a_source_that_was_cut_off_gives_a_history_that_is_cut_off(repository: Repository, tmp_path: Path) -> None:
    commits = [repository.commit({"a": str(number)}) for number in range(5)]
    git(tmp_path, "clone", "--quiet", "--depth=3", f"file://{repository.path}", "shallow")
    source = RepositorySource(url=str(tmp_path / "shallow"), commit=commits[3])
    workspace = _workspace(base_of(source, cache=tmp_path / "cache"), tmp_path)
    assert git(workspace, "log", "--format=%H").split() == [commits[3], commits[2]]
    git(workspace, "fsck", "--strict")


def test_a_repository_with_longer_ids_works_as_well(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "upstream", options=("--object-format=sha256",))
    base = repository.commit({"a": "1"})
    later = repository.commit({"a": "2"})
    workspace = _workspace(base_at(repository, base, tmp_path), tmp_path)
    assert len(base) == 64
    assert git(workspace, "log", "--format=%H") == base
    assert later not in all_objects(workspace)


def test_a_directory_that_is_not_empty_is_not_overwritten(repository: Repository, tmp_path: Path) -> None:
    base = base_at(repository, repository.commit({"a": "1"}), tmp_path)
    write(tmp_path / "busy", {"mine": "x"})
    with pytest.raises(UsageError, match="new or empty directory"):
        check_out(base, tmp_path / "busy")
    (tmp_path / "empty").mkdir()
    check_out(base, tmp_path / "empty")
    assert (tmp_path / "empty/a").exists()


def test_a_checkout_that_was_killed_is_made_again(repository: Repository, tmp_path: Path) -> None:
    base = base_at(repository, repository.commit({"a": "1"}), tmp_path)
    write(tmp_path / ".workspace.partial", {"half": "x", ".git/index.lock": ""})
    assert set(contents(_workspace(base, tmp_path))) == {b"a"}
    assert not (tmp_path / ".workspace.partial").exists()


def test_what_git_does_not_keep_of_a_plain_directory_is_restored(tmp_path: Path) -> None:
    source = write(tmp_path / "source", {"secret": "x", "closed/inner": "y", "shared": "z"})
    (source / "empty/deep").mkdir(parents=True)
    (source / "secret").chmod(0o400)
    (source / "shared").chmod(0o666)
    (source / "closed").chmod(0o711)
    workspace = _workspace(base_from(tmp_path, {}), tmp_path)
    for name, mode in {"secret": 0o400, "shared": 0o666, "closed": 0o711, "closed/inner": 0o644}.items():
        assert (workspace / name).stat().st_mode & 0o777 == mode, name
    assert (workspace / "empty/deep").is_dir()
    assert git(workspace, "status", "--porcelain") == ""
