import multiprocessing
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError
from proctor.core.submission import PatchKind
from proctor.workspaces import BaseTree, InvalidSubmission, WorkspacePatch, apply_patch, check_out, make_submission
from proctor.workspaces import submissions as module
from workspaces_world import Files, Repository, base_at, base_from, contents, git, snapshot, write

TEXT = "one\ntwo\nthree\n"


def _after(base: BaseTree, tmp_path: Path, files: Files) -> Path:
    check_out(base, tmp_path / "workspace")
    return write(tmp_path / "workspace", files)


def _round_trip(base: BaseTree, tree: Path, tmp_path: Path) -> WorkspacePatch:
    """Make, make again (the same bytes), apply strictly to a fresh copy, and get the same tree."""
    made = make_submission(base, tree)
    assert make_submission(base, tree) == made
    check_out(base, tmp_path / "fresh")
    applied = apply_patch(tmp_path / "fresh", made.patch, PatchKind.UNIFIED_DIFF)
    assert applied.applied_with is None
    assert applied.touched == made.touched
    assert contents(tmp_path / "fresh") == contents(tree)
    return made


def test_every_kind_of_change_survives(tmp_path: Path) -> None:
    base = base_from(
        tmp_path,
        {
            "edited.txt": TEXT,
            "crlf.txt": "one\r\ntwo\r\n",
            "no-newline": "end",
            "image.png": bytes(range(256)),
            "becomes-program": "#!/bin/sh\n",
            "gone": "x\n",
            "moved": TEXT * 20,
            "link": Path("edited.txt"),
            "link-to-file": Path("edited.txt"),
            "file-to-link": "x\n",
            "file-to-directory": "x\n",
            "directory/inner": "y\n",
            "emptied": "z\n",
            b"\xff\xfe": "not text\n",
            "lines": "a\n-- b\n++ c\n",
        },
    )
    tree = _after(
        base,
        tmp_path,
        {
            "edited.txt": "one\n2\nthree\n",
            "crlf.txt": "one\r\n2\r\n",
            "no-newline": "another end",
            "image.png": bytes(range(255, -1, -1)),
            "gone": None,
            "moved": None,
            "moved-to": TEXT * 20,
            "link": Path("no-newline"),
            "file-to-link": None,
            "file-to-directory": None,
            "directory/inner": None,
            "emptied": "",
            "new-empty": "",
            "new dir/with space": "x",
            'quo"te\n\t': "odd\n",
            b"\xff\xfe": "changed\n",
            b"caf\xe9/\xc3\xa9": "latin and utf-8\n",
            "lines": "a\n++ c\n-- d\n",
            "binary": os.urandom(1000),
        },
    )
    (tree / "becomes-program").chmod(0o755)
    (tree / "link-to-file").unlink()
    (tree / "directory").rmdir()
    write(
        tree,
        {
            "link-to-file": "now a file\n",
            "file-to-link": Path("edited.txt"),
            "file-to-directory/inner": "x\n",
            "directory": "now a file\n",
        },
    )
    made = _round_trip(base, tree, tmp_path)
    assert made.excluded == ()
    assert os.fsdecode(b"\xff\xfe") in made.touched
    assert b"rename" not in made.patch
    git(tree, "apply", "--check", "--reverse", stdin=made.patch)


def test_nothing_changed_is_an_empty_patch(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"a": TEXT, "link": Path("a")})
    assert make_submission(base, _after(base, tmp_path, {})) == WorkspacePatch(patch=b"", touched=(), excluded=())


def test_the_agents_git_has_no_say(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"a.txt": TEXT, "b.bin": b"\0\1"})
    tree = _after(base, tmp_path, {"a.txt": "changed\n", "new.txt": "x\n", "b.bin": b"\0\2"})
    expected = make_submission(base, tree).patch
    marker = tmp_path / "ran"
    program = f"sh -c 'touch {marker}; cat'"
    config = "".join(
        f"[{section}]\n\t{key} = {value}\n"
        for section, key, value in [
            ("core", "fsmonitor", f"touch {marker}"),
            ("core", "pager", f"touch {marker}"),
            ("core", "ignoreCase", "true"),
            ("diff", "external", f"touch {marker}"),
            ("diff", "noprefix", "true"),
            ('filter "x"', "clean", program),
            ('filter "x"', "required", "true"),
            ('diff "x"', "textconv", program),
            ('diff "x"', "binary", "true"),
        ]
    )
    write(
        tree,
        {
            ".git/config": config,
            ".git/info/attributes": "* filter=x diff=x binary text eol=crlf\n",
            ".git/info/exclude": "*\n",
            ".git/hooks/pre-commit": f"#!/bin/sh\ntouch {marker}\n",
        },
    )
    assert make_submission(base, tree).patch == expected
    shutil.rmtree(tree / ".git")
    assert make_submission(base, tree).patch == expected
    (tree / ".git").write_text("gitdir: /nonexistent\n")
    assert make_submission(base, tree).patch == expected
    write(tree, {".gitattributes": "* filter=x diff=x binary -diff text eol=crlf\n"})
    with_attributes = make_submission(base, tree)
    assert with_attributes.patch.endswith(expected.partition(b"diff --git a/b.bin")[2])
    assert b"-one\n-two\n-three\n+changed\n" in with_attributes.patch
    assert not marker.exists()


def test_ignored_files_are_left_out_by_the_bases_rules_alone(tmp_path: Path) -> None:
    base = base_from(
        tmp_path,
        {
            ".gitignore": "*.log\nbuild/\n!keep.log\n",
            "sub/.gitignore": "/local\n",
            "tracked.log": "in the base although ignored\n",
        },
    )
    tree = _after(
        base,
        tmp_path,
        {
            ".gitignore": "secret-code.py\n!*.log\n",
            "secret-code.py": "hidden from git by the agent\n",
            "tracked.log": "changed\n",
            "noise.log": "x",
            "keep.log": "x\n",
            "build/out/deep": "x",
            "sub/local": "x",
            "sub/other": "x\n",
            "other/local": "x\n",
            ":(exclude)code.py": "not git's magic\n",
        },
    )
    made = make_submission(base, tree)
    assert made.touched == (
        ".gitignore",
        ":(exclude)code.py",
        "keep.log",
        "other/local",
        "secret-code.py",
        "sub/other",
        "tracked.log",
    )
    assert {left.path for left in made.excluded} == {"noise.log", "build", "sub/local"}
    assert {left.reason for left in made.excluded} == {"ignored by the base's .gitignore"}


def test_litter_is_left_out_without_any_rule(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "upstream")
    commit = repository.commit({"code.py": "x = 1\n", "fixtures/__pycache__/kept.pyc": b"\0"})
    base = base_at(repository, commit, tmp_path)
    tree = _after(
        base,
        tmp_path,
        {
            "__pycache__/code.pyc": "x",
            "pkg/lone.pyc": "x",
            ".pytest_cache/v": "x",
            "pkg.egg-info/PKG-INFO": "x",
            "my-env/pyvenv.cfg": "x",
            "my-env/bin/python": Path("/usr/bin/python3"),
            "node_modules/.package-lock.json": "{}",
            "node_modules/x/index.js": "x",
            "lib/node_modules/fixture.js": "written by hand\n",
            "fixtures/__pycache__/kept.pyc": b"\1",
        },
    )
    made = make_submission(base, tree)
    assert made.touched == ("fixtures/__pycache__/kept.pyc", "lib/node_modules/fixture.js")
    assert {left.path: left.reason for left in made.excluded} == {
        ".pytest_cache": "build artifact",
        "__pycache__": "build artifact",
        "my-env": "installed packages",
        "node_modules": "installed packages",
        "pkg.egg-info": "build artifact",
        "pkg/lone.pyc": "build artifact",
    }


def test_files_that_a_patch_cannot_hold_are_excluded_with_a_note(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"tracked-link": Path("a"), "a": "1\n", "becomes-pipe": "x\n"})
    tree = _after(
        base,
        tmp_path,
        {
            "tracked-link": Path("/etc/passwd"),
            "out": Path("../../x"),
            "nested/.git/HEAD": "ref: refs/heads/main\n",
            "nested/code": "kept\n",
            "worktree/.git": "gitdir: /elsewhere\n",
            ".GIT/config": "x",
            "git~1": "x",
            "..\\evil": "x",
            "becomes-pipe": None,
        },
    )
    os.mkfifo(tree / "pipe")
    os.mkfifo(tree / "becomes-pipe")
    made = make_submission(base, tree)
    assert made.touched == ("becomes-pipe", "nested/code")
    assert {left.path: left.reason for left in made.excluded} == {
        "tracked-link": "a symlink that may lead out of the workspace",
        "out": "a symlink that may lead out of the workspace",
        "nested/.git": "git metadata",
        "worktree/.git": "git metadata",
        ".GIT": "git metadata",
        "git~1": "git metadata",
        "..\\evil": "the name leaves the workspace through ..",
        "pipe": "neither file, directory nor symlink",
        "becomes-pipe": "neither file, directory nor symlink",
    }
    check_out(base, tmp_path / "fresh")
    apply_patch(tmp_path / "fresh", made.patch, PatchKind.UNIFIED_DIFF)


def test_a_submodule_stays_what_it_is(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "upstream")
    repository.commit({"a": "1\n"})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    repository.git("commit", "--quiet", "-m", "submodule")
    base = base_at(repository, repository.git("rev-parse", "HEAD"), tmp_path)
    tree = _after(base, tmp_path, {"a": "2\n"})
    assert make_submission(base, tree).touched == ("a",)
    write(tree, {"sub/mine": "x"})
    filled = make_submission(base, tree)
    assert filled.touched == ("a",)
    assert [left.reason for left in filled.excluded] == ["in place of a submodule"]
    shutil.rmtree(tree / "sub")
    assert make_submission(base, tree).touched == ("a",)


def _make_as_nobody(base: BaseTree, tree: Path, results: "multiprocessing.Queue[WorkspacePatch]") -> None:
    if os.getuid() == 0:  # root reads every file
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    results.put(make_submission(base, tree))


def test_unreadable_files_count_as_unchanged() -> None:
    with tempfile.TemporaryDirectory() as directory:
        tmp_path = Path(directory)
        tmp_path.chmod(0o755)
        base = base_from(tmp_path, {"a": "1\n", "dir/b": "2\n", "c": "3\n"})
        tree = _after(base, tmp_path, {"a": "changed\n", "new": "x", "dir/b": "changed\n", "c": "changed\n"})
        for name in ("a", "new", "dir"):
            (tree / name).chmod(0)
        context = multiprocessing.get_context("fork")
        results: multiprocessing.Queue[WorkspacePatch] = context.Queue()
        maker = context.Process(target=_make_as_nobody, args=(base, tree, results))
        maker.start()
        made = results.get(timeout=60)
        maker.join()
        (tree / "dir").chmod(0o755)
    assert made.touched == ("c",)
    assert {left.path: left.reason for left in made.excluded} == dict.fromkeys(
        ["a", "new", "dir"], "cannot be read: Permission denied"
    )


def test_a_patch_over_the_limit_is_the_agents_failure(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"a": "1\n"})
    tree = _after(base, tmp_path, {"noise": os.urandom(3000)})
    with pytest.raises(InvalidSubmission, match=r"the patch is [\d.]+kB, more than 2\.0kB") as caught:
        make_submission(base, tree, limit_bytes=2000)
    assert caught.value.cause is Cause.TOO_LARGE
    assert caught.value.exit_code == 0


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"a": "1\n"})
    tree = _after(base, tmp_path, {})
    with (tree / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InvalidSubmission, match=r"huge: the changed files hold more than 100\.0MB") as caught:
        make_submission(base, tree)
    assert caught.value.cause is Cause.TOO_LARGE


def test_a_large_file_that_nobody_touched_costs_nothing(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"large": b"x" * 5_000_000, "a": "1\n"})
    tree = _after(base, tmp_path, {"a": "2\n"})
    assert make_submission(base, tree, limit_bytes=1000).touched == ("a",)


def test_a_tree_of_more_files_than_anyone_can_want_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = base_from(tmp_path, {"a": "1\n"})
    tree = _after(base, tmp_path, {f"many/{number}": "" for number in range(50)})
    monkeypatch.setattr(module, "MOST_ENTRIES", 40)
    with pytest.raises(InvalidSubmission, match="more than 40 files"):
        make_submission(base, tree)


def test_of_very_many_things_left_out_the_first_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = base_from(tmp_path, {"a": "1\n"})
    tree = _after(base, tmp_path, {f"{number}.pyc": "" for number in range(20)})
    monkeypatch.setattr(module, "MAX_EXCLUDED", 5)
    left = make_submission(base, tree).excluded
    assert len(left) == 6
    assert left[-1].reason == "and 15 more"


def test_directories_deeper_than_any_path_are_left_out(tmp_path: Path) -> None:
    base = base_from(tmp_path, {".gitignore": "nothing\n", "a": "1\n"})
    tree = _after(base, tmp_path, {"a": "2\n"})
    here = os.open(tree, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    made = make_submission(base, tree)
    assert made.touched == ("a",)
    assert [left.reason for left in made.excluded] == ["cannot be read: File name too long"]


def test_a_tree_that_is_not_there_is_not_the_agents_failure(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"a": "1\n"})
    with pytest.raises(InfrastructureError, match="is not there"):
        make_submission(base, tmp_path / "nothing")


def test_making_a_submission_changes_nothing(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"a": "1\n", ".gitignore": "x\n"})
    tree = _after(base, tmp_path, {"a": "2\n", "x": "1", "b/c": "3"})
    before = snapshot(tmp_path)
    make_submission(base, tree)
    assert snapshot(tmp_path) == before


NAMES = st.sampled_from(
    [b"a", b"b", b"A", b"\xff", b"c d", b'"', b"\n", b"x\\y", b"-", b"\xc3\xa9", b"*", b"+x", b"\t."]
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
LINES = st.lists(st.sampled_from([b"x", b"", b"-- y", b"++ z", b"@@ -1 +1 @@", b"caf\xe9", b"diff --git a/a b/a"]))
DATA = st.one_of(
    st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans()).map(
        lambda drawn: drawn[1].join(drawn[0]) + drawn[1] * drawn[2]
    ),
    st.binary(max_size=200),
)
ENTRIES = st.one_of(
    st.tuples(st.just("file"), DATA),
    st.tuples(st.just("program"), DATA),
    st.tuples(st.just("link"), st.sampled_from([b"a", b"b/c", b"."])),
)
TREES = st.dictionaries(PATHS, ENTRIES, max_size=8).map(
    lambda tree: {
        path: entry
        for path, entry in tree.items()
        if not any(other != path and path.startswith(other + b"/") for other in tree)
    }
)


def _write_tree(root: Path, tree: dict[bytes, tuple[str, bytes]]) -> None:
    for path, (kind, data) in tree.items():
        place = root / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            place.symlink_to(os.fsdecode(data))
        else:
            place.write_bytes(data)
            place.chmod(0o755 if kind == "program" else 0o644)


# A base is synced to disk, which a busy machine makes slow.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@given(before=TREES, after=TREES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_change_of_any_tree_is_made_applied_and_the_same(
    before: dict[bytes, tuple[str, bytes]], after: dict[bytes, tuple[str, bytes]]
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        tmp_path = Path(directory)
        (tmp_path / "source").mkdir()
        _write_tree(tmp_path / "source", before)
        base = base_from(tmp_path, {})
        tree = tmp_path / "tree"
        tree.mkdir()
        _write_tree(tree, after)
        made = make_submission(base, tree)
        check_out(base, tmp_path / "fresh")
        if made.patch:
            applied = apply_patch(tmp_path / "fresh", made.patch, PatchKind.UNIFIED_DIFF, base=base)
            assert applied.applied_with is None
            assert applied.touched == made.touched
        assert contents(tmp_path / "fresh") == contents(tree) == after
