"""A suite is untrusted input: nothing in it leads out of its folder."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.benchmarks.suites.boundaries import MAX_TREE_BYTES
from proctor.benchmarks.suites.load import load_suite
from proctor.core.errors import InvalidData
from suite_world import make_instance, make_suite, proctor


def change(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def link(path: Path, target: Path | str) -> Path:
    path.symlink_to(target)
    return path


def replace(path: Path, target: Path | str) -> None:
    """Put a link in the place of a file or folder."""
    path.rename(path.parent.parent.parent.parent / f"moved-{path.name}")
    path.symlink_to(target)


ATTACKS: dict[str, Callable[[Path, Path], object]] = {
    "statement": lambda one, out: replace(one / "issue.md", out / "secret"),
    "oracle": lambda one, out: replace(one / "oracle.diff", out / "secret"),
    "instance": lambda one, out: replace(one / "instance.json", out / "instance.json"),
    "repo": lambda one, out: replace(one / "repo", out),
    "hidden": lambda one, out: replace(one / "hidden", out),
    "folder of instances": lambda one, out: (one.parent.rename(out / "i"), link(one.parent, out / "i")),
    "link in repo": lambda one, out: (one / "repo/link").symlink_to(out / "secret"),
    "link in repo, with dots": lambda one, _: (one / "repo/link").symlink_to("../../../../outside/secret"),
    "link in repo to the hidden tests": lambda one, _: (one / "repo/link").symlink_to("../hidden/tests/test_calc.py"),
    "link to a folder in repo": lambda one, out: (one / "repo/tests/link").symlink_to(out),
    "link in hidden": lambda one, out: (one / "hidden/tests/link").symlink_to(out / "secret"),
    "link through a link": lambda one, _: (
        link(one / "repo/up", "tests/.."),
        link(one / "repo/link", "up/../../x"),
    ),
    "link to nothing outside": lambda one, _: (one / "repo/link").symlink_to("/nowhere/at/all"),
    "pipe": lambda one, _: os.mkfifo(one / "repo/pipe"),
    "giant": lambda one, _: os.truncate(one / "repo/calc.py", MAX_TREE_BYTES + 1),
    "deep": lambda one, _: (one / "repo" / "/".join(["d"] * 200)).mkdir(parents=True),
}


@pytest.fixture
def world(tmp_path: Path) -> tuple[Path, Path]:
    """A suite, and a folder outside it with something that is not its own."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("private\n")
    folder = tmp_path / "suite"
    folder.mkdir()
    make_instance(folder)
    make_suite(folder)
    (outside / "instance.json").write_bytes((folder / "instances/one/instance.json").read_bytes())
    return folder, outside


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_suite_that_reaches_out_is_refused(attack: str, world: tuple[Path, Path]) -> None:
    folder, outside = world
    ATTACKS[attack](folder / "instances/one", outside)
    with pytest.raises(InvalidData) as refused:
        load_suite(folder)
    assert "private" not in refused.value.sentence


@pytest.mark.parametrize("path", ["../../outside/secret", "/etc/passwd", "a/../../x", "..", "C:/x", "\\x"])
@pytest.mark.parametrize("field", ["problem_statement_path", "repo_path", "oracle", "eval"])
def test_a_path_that_leaves_the_folder_is_refused(path: str, field: str, world: tuple[Path, Path]) -> None:
    file = world[0] / "instances/one/instance.json"
    inner: dict[str, Any] = {
        "oracle": {"patch_kind": "unified-diff", "patch_path": path},
        "eval": {**json.loads(file.read_text())["eval"], "hidden_path": path},
    }
    change(file, **{field: inner.get(field, path)})
    suite = load_suite(world[0])
    assert not suite.instances
    assert "a relative path that does not leave its folder" in str(suite.invalid[0].problems[0])


def test_a_suite_file_that_is_a_link_out_of_its_folder_is_refused(world: tuple[Path, Path]) -> None:
    folder, outside = world
    (folder / "suite.json").rename(outside / "suite.json")
    (folder / "suite.json").symlink_to(outside / "suite.json")
    with pytest.raises(InvalidData, match="a link leads out of the suite"):
        load_suite(folder)


def test_links_that_stay_inside_are_taken(world: tuple[Path, Path], tmp_path: Path) -> None:
    folder, _ = world
    (folder / "instances/one/repo/same.py").symlink_to("calc.py")
    (folder / "instances/one/repo/tests/up").symlink_to("../calc.py")
    (folder / "instances/one/repo/loop").symlink_to("loop")
    (tmp_path / "by-another-name").symlink_to(folder)
    for name in (folder, tmp_path / "by-another-name", tmp_path / "by-another-name/suite.json"):
        assert [instance.id for instance in load_suite(name).instances] == ["one"]


def test_the_command_ends_with_one_sentence_and_its_exit_code(world: tuple[Path, Path]) -> None:
    folder, outside = world
    (folder / "instances/one/repo/link").symlink_to(outside / "secret")
    done = proctor(folder, "bench", "validate", "--suite", folder)
    assert done.code == InvalidData.exit_code
    (line,) = done.stderr.splitlines()
    assert line.endswith("repo/link: a link leads out of its tree; put the file itself there")
