import bz2
import gzip
import json
import lzma
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from proctor.core.errors import UsageError
from proctor.core.submission import PatchKind
from proctor.workspaces import LeakProof, check_out, prove_no_leak
from workspaces_world import Repository, all_objects, base_at, base_from, git, write

OLD = "import os\n\n\ndef area(width, height):\n    return width + height\n"
NEW = (
    "import os\n\n\ndef area(width, height):\n"
    '    if width < 0 or height < 0:\n        raise ValueError(f"negative: {width} x {height}")\n'
    "    scaled = width * height\n    return round(scaled, PRECISION)\n"
)
DISTINCTIVE = {
    "if width < 0 or height < 0:",
    'raise ValueError(f"negative: {width} x {height}")',
    "scaled = width * height",
    "return round(scaled, PRECISION)",
}


class World:
    """A repository whose next commit is the fix, the oracle patch, and a workspace before it."""

    def __init__(self, tmp_path: Path) -> None:
        self.repository = Repository(tmp_path / "upstream")
        self.repository.commit({"shapes.py": "# nothing yet\n"})
        self.base = self.repository.commit({"shapes.py": OLD, "other.py": "def perimeter(width, height):\n    pass\n"})
        self.fix = self.repository.commit({"shapes.py": NEW})
        self.oracle = self.repository.git("diff", self.base, self.fix).encode() + b"\n"
        self.workspace = tmp_path / "workspace"
        check_out(base_at(self.repository, self.base, tmp_path), self.workspace)

    def proof(self, *extra: Path) -> LeakProof:
        return prove_no_leak(self.oracle, self.workspace, commit=self.base, extra=extra)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_scrubbed_workspace_holds_no_leak(world: World) -> None:
    proof = world.proof()
    assert proof.holds
    assert proof.signature_lines == len(DISTINCTIVE)
    assert proof.stray_objects == 0
    assert proof.locations >= 2


def test_a_plain_clone_leaks_and_says_where(world: World) -> None:
    shutil.rmtree(world.workspace)
    git(world.workspace.parent, "clone", "--quiet", str(world.repository.path), "workspace")
    git(world.workspace, "checkout", "--quiet", world.base)
    proof = world.proof()
    assert not proof.holds
    blob = git(world.repository.path, "rev-parse", f"{world.fix}:shapes.py")
    (leak,) = proof.leaks
    assert leak.location == f"git object {blob} (blob)"
    assert leak.kind == "object"
    assert set(leak.lines) == DISTINCTIVE
    assert proof.stray_objects == 3


def _fetch_future(world: World) -> None:
    git(world.workspace, "fetch", "--quiet", str(world.repository.path), world.fix)


def _as_branch(world: World) -> None:
    _fetch_future(world)
    git(world.workspace, "branch", "later", "FETCH_HEAD")
    (world.workspace / ".git/FETCH_HEAD").unlink()


def _as_tag(world: World) -> None:
    _fetch_future(world)
    git(world.workspace, "tag", "-a", "-m", "release", "v2", "FETCH_HEAD")


def _as_remote(world: World) -> None:
    git(world.workspace, "remote", "add", "origin", str(world.repository.path))
    git(world.workspace, "fetch", "--quiet", "origin")


def _in_the_reflog(world: World) -> None:
    _fetch_future(world)
    git(world.workspace, "reset", "--quiet", "--hard", "FETCH_HEAD")
    git(world.workspace, "reset", "--quiet", "--hard", world.base)
    for name in ("FETCH_HEAD", "ORIG_HEAD"):
        (world.workspace / ".git" / name).unlink()


def _unreachable(world: World) -> None:
    _fetch_future(world)
    shutil.rmtree(world.workspace / ".git/logs", ignore_errors=True)
    (world.workspace / ".git/FETCH_HEAD").unlink()


def _loose(world: World) -> None:
    git(world.workspace, "hash-object", "-w", "--stdin", stdin=NEW.encode())


def _packed(world: World) -> None:
    _as_branch(world)
    git(world.workspace, "repack", "-adq")
    git(world.workspace, "branch", "-D", "later")


def _in_the_stash(world: World) -> None:
    write(world.workspace, {"shapes.py": NEW})
    git(world.workspace, "stash")


def _in_the_index(world: World) -> None:
    write(world.workspace, {"shapes.py": NEW})
    git(world.workspace, "add", "shapes.py")
    write(world.workspace, {"shapes.py": OLD})


def _borrowed(world: World) -> None:
    write(world.workspace, {".git/objects/info/alternates": f"{world.repository.path}/.git/objects\n"})


def _in_a_commit_message(world: World) -> None:
    message = "fix\n\n    scaled = width * height\n"
    git(world.workspace, "commit", "--quiet", "--allow-empty", "-m", message)
    git(world.workspace, "reset", "--quiet", "--hard", world.base)


def _in_a_note(world: World) -> None:
    git(world.workspace, "notes", "add", "-m", "return round(scaled, PRECISION)", world.base)


@pytest.mark.parametrize(
    "plant",
    [
        _as_branch,
        _as_tag,
        _as_remote,
        _in_the_reflog,
        _unreachable,
        _loose,
        _packed,
        _in_the_stash,
        _in_the_index,
        _borrowed,
        _in_a_commit_message,
        _in_a_note,
    ],
)
def test_a_leak_in_git_is_found_however_it_is_kept(world: World, plant: Callable[[World], None]) -> None:
    plant(world)
    proof = world.proof()
    assert proof.stray_objects > 0
    assert not proof.holds
    assert {leak.kind for leak in proof.leaks} == {"object"}
    assert set(proof.leaks[0].lines) <= DISTINCTIVE


def _as_a_submodule(world: World) -> None:
    git(world.workspace, "clone", "--quiet", "--bare", str(world.repository.path), ".git/modules/shapes")
    write(world.workspace, {"vendor/shapes/.git": "gitdir: ../../.git/modules/shapes\n"})


def _as_a_clone_inside(world: World) -> None:
    git(world.workspace, "clone", "--quiet", "--no-checkout", str(world.repository.path), "vendor/shapes")


def _as_a_worktree(world: World) -> None:
    _as_branch(world)
    git(world.workspace, "worktree", "add", "--quiet", "--detach", "vendor/shapes", "later")
    git(world.workspace, "branch", "-D", "later")


def _as_a_bundle(world: World) -> None:
    git(world.repository.path, "bundle", "create", "--quiet", str(world.workspace / "past.bundle"), "--all")


def _as_a_pack(world: World) -> None:
    (pack,) = (world.repository.path / ".git/objects/pack").glob("*.pack")
    shutil.copy(pack, world.workspace / "data.bin")


@pytest.mark.parametrize("plant", [_as_a_submodule, _as_a_clone_inside, _as_a_worktree, _as_a_bundle, _as_a_pack])
def test_a_leak_in_another_repository_within_reach_is_found(world: World, plant: Callable[[World], None]) -> None:
    git(world.repository.path, "repack", "-adq")
    plant(world)
    proof = world.proof()
    assert proof.leaks
    assert not proof.holds
    assert set(proof.leaks[0].lines) <= DISTINCTIVE


@pytest.mark.parametrize(
    "name", ["shapes.py", "build/lib/shapes.py", ".git/rebase-apply/patch", b"odd\xff", "deep/er/copy.txt"]
)
def test_a_file_with_the_answer_is_found_wherever_it_is(world: World, name: str | bytes) -> None:
    write(world.workspace, {name: NEW})
    (leak,) = world.proof().leaks
    assert leak.kind == "file"
    assert leak.location.endswith(os.fsencode(name).decode("utf-8", "backslashreplace"))
    assert set(leak.lines) == DISTINCTIVE


@pytest.mark.parametrize("form", ["patch", "json", "ascii", "reindented", "crlf"])
def test_the_answer_is_found_in_every_form(world: World, form: str) -> None:
    text = {
        "patch": world.oracle.decode(),
        "json": json.dumps({"id": 1, "patch": world.oracle.decode()}, ensure_ascii=False),
        "ascii": json.dumps([{"solution": NEW}]),
        "reindented": NEW.replace("    ", "\t\t\t"),
        "crlf": NEW.replace("\n", "\r\n"),
    }[form]
    write(world.workspace, {"predictions": text})
    (leak,) = world.proof().leaks
    assert leak.location == str(world.workspace / "predictions")
    assert set(leak.lines) == DISTINCTIVE


PACK: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def _wheel(place: Path, data: bytes) -> None:
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("shapes/__init__.py", data)


@pytest.mark.parametrize("kind", ["plain", "wheel", "gz", "bz2", "xz", "repository"])
def test_packages_and_caches_are_searched_too(world: World, tmp_path: Path, kind: str) -> None:
    cache = tmp_path / "site-packages"
    cache.mkdir()
    data = NEW.encode()
    match kind:
        case "plain":
            write(cache, {"shapes/core.py": data})
        case "wheel":
            _wheel(cache / "shapes-2.0-py3-none-any.whl", data)
        case "repository":
            git(cache, "clone", "--quiet", "--bare", str(world.repository.path), "vcs")
        case _:
            (cache / "body").write_bytes(PACK[kind](data))
    assert world.proof().holds
    (leak,) = world.proof(cache).leaks
    assert leak.location.startswith(str(cache))
    (only,) = (
        world.proof(next(place for place in cache.rglob("*") if place.is_file())).leaks
        if kind != "repository"
        else [leak]
    )
    assert set(only.lines) == DISTINCTIVE


def test_a_file_that_is_only_named_like_an_archive_is_read_as_a_file(world: World, tmp_path: Path) -> None:
    for start in (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"):
        (tmp_path / "broken").write_bytes(start + b"\n" + NEW.encode())
        assert len(world.proof(tmp_path / "broken").leaks) == 1


def test_a_line_across_two_blocks_is_found(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from proctor.workspaces import leaks

    monkeypatch.setattr(leaks, "_BLOCK", 4096)
    monkeypatch.setattr(leaks, "_OVERLAP", 512)
    for shift in range(0, 300, 37):
        (tmp_path / "big").write_bytes(b"x" * (4000 + shift) + b"\n" + NEW.encode() + b"y\n" * 5000)
        assert len(world.proof(tmp_path / "big").leaks) == 1, shift


def test_a_few_lines_by_chance_are_no_leak(world: World, tmp_path: Path) -> None:
    write(tmp_path / "lib", {"a.py": "scaled = width * height\n", "b.py": "if width < 0 or height < 0:\n    pass\n"})
    assert world.proof(tmp_path / "lib").holds


def test_a_short_answer_is_found_by_its_only_line(tmp_path: Path) -> None:
    oracle = b"--- a/f.py\n+++ b/f.py\n@@ -1 +1,3 @@\n x = 1\n+y = compute_everything(x)\n+z\n"
    base = base_from(tmp_path, {"f.py": "x = 1\n"})
    check_out(base, tmp_path / "workspace")
    write(tmp_path / "workspace", {"notes.md": "  y = compute_everything(x)\n"})
    proof = prove_no_leak(oracle, tmp_path / "workspace", commit=base.commit)
    assert proof.signature_lines == 1
    assert [leak.lines for leak in proof.leaks] == [("y = compute_everything(x)",)]


def test_lines_that_the_changed_file_has_already_tell_nothing(tmp_path: Path) -> None:
    oracle = (
        b"--- a/f.py\n+++ b/f.py\n@@ -1 +1,3 @@\n-def alpha_function(value):\n+def alpha_function(value):\n"
        b"+def beta_function(value):\n+    return 1\n"
    )
    base = base_from(tmp_path, {"f.py": "def alpha_function(value):\n    def beta_function(value):\n"})
    check_out(base, tmp_path / "workspace")
    proof = prove_no_leak(oracle, tmp_path / "workspace", commit=base.commit)
    assert proof.signature_lines == 0
    assert proof.holds


def test_the_tasks_own_files_are_no_leak_unless_they_hold_the_answer_as_such(tmp_path: Path) -> None:
    sibling = NEW.replace("area", "volume")
    repository = Repository(tmp_path / "upstream")
    base = repository.commit({"shapes.py": OLD, "volumes.py": sibling, "oracle.json": "{}\n"})
    repository.commit({"shapes.py": NEW})
    oracle = repository.git("diff", base, "HEAD").encode() + b"\n"
    check_out(base_at(repository, base, tmp_path), tmp_path / "workspace")
    assert prove_no_leak(oracle, tmp_path / "workspace", commit=base).holds

    careless = Repository(tmp_path / "careless")
    base = careless.commit(
        {"shapes.py": OLD, "oracle.json": json.dumps({"patch": oracle.decode()}), "fix.diff": oracle}
    )
    check_out(base_at(careless, base, tmp_path), tmp_path / "second")
    proof = prove_no_leak(oracle, tmp_path / "second", commit=base)
    assert {Path(leak.location).name for leak in proof.leaks} == {"oracle.json", "fix.diff"}


def test_a_solution_that_was_reverted_before_the_base_is_not_a_leak(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "upstream")
    repository.commit({"shapes.py": NEW})
    base = repository.commit({"shapes.py": OLD}, "revert")
    repository.commit({"shapes.py": NEW})
    oracle = repository.git("diff", base, "HEAD").encode() + b"\n"
    check_out(base_at(repository, base, tmp_path), tmp_path / "workspace")
    assert prove_no_leak(oracle, tmp_path / "workspace", commit=base).holds


def test_the_answer_to_a_patch_set_task_is_found_word_for_word(tmp_path: Path) -> None:
    oracle = json.dumps(
        {
            "schema_version": "x07.arch.patchset@0.1.0",
            "patches": [{"path": "m.json", "patch": [{"op": "replace", "path": "/a", "value": 4}]}],
        }
    ).encode()
    base = base_from(tmp_path, {"m.json": '{"a": 3}\n'})
    check_out(base, tmp_path / "workspace")
    proof = prove_no_leak(oracle, tmp_path / "workspace", commit=base.commit, kind=PatchKind.PATCH_SET)
    assert proof.holds
    assert proof.signature_lines == 0
    write(tmp_path / "workspace", {"oracle.patchset.json": oracle + b"\n"})
    proof = prove_no_leak(oracle, tmp_path / "workspace", commit=base.commit, kind=PatchKind.PATCH_SET)
    assert [Path(leak.location).name for leak in proof.leaks] == ["oracle.patchset.json"]


def test_a_workspace_without_git_is_searched_as_files(tmp_path: Path) -> None:
    oracle = b"--- a/f.py\n+++ b/f.py\n@@ -1 +1,2 @@\n x = 1\n+y = compute_everything(x)\n"
    tree = write(tmp_path / "tree", {"f.py": "x = 1\n"})
    assert prove_no_leak(oracle, tree, commit="1" * 40).holds
    write(tree, {"f.py": "x = 1\ny = compute_everything(x)\n"})
    assert len(prove_no_leak(oracle, tree, commit="1" * 40).leaks) == 1


def test_nothing_is_proved_about_what_cannot_be_read(world: World, tmp_path: Path) -> None:
    write(tmp_path / "vcs", {"HEAD": "ref: refs/heads/main\n", "refs/x": "", "objects/pack/pack-1.idx": "broken"})
    write(tmp_path / "vcs", {f"objects/pack/pack-{'1' * 40}.idx": "broken", f"objects/pack/pack-{'1' * 40}.pack": "x"})
    write(tmp_path / "vcs", {f"objects/11/{'1' * 38}": "broken"})
    proof = world.proof(tmp_path / "vcs")
    assert not proof.leaks
    assert not proof.holds
    assert "vcs" in proof.unread[0]


def test_a_place_that_is_not_there_is_named(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to search"):
        world.proof(tmp_path / "nowhere")


def test_the_settings_of_a_searched_repository_are_not_used(world: World, tmp_path: Path) -> None:
    with (world.workspace / ".git/config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = touch {tmp_path}/ran\n\tpager = touch {tmp_path}/ran\n")
    _loose(world)
    assert not world.proof().holds
    assert not (tmp_path / "ran").exists()


def test_searching_changes_nothing(world: World) -> None:
    before = all_objects(world.workspace)
    listing = sorted(place.name for place in (world.workspace / ".git").rglob("*"))
    world.proof()
    assert all_objects(world.workspace) == before
    assert sorted(place.name for place in (world.workspace / ".git").rglob("*")) == listing
