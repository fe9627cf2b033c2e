import resource
from pathlib import Path

import pytest

from proctor.core.environment import Limits
from proctor.environments.cgroups import Cgroup
from proctor.environments.limits import limits_for_command

ALL = Limits(memory_mb=100, processes=50, cpus=1.5)


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """A tree as version 2 has it, where we are in /system/ours."""
    root = tmp_path / "cgroup"
    for place, controllers in (("", "cpu memory pids"), ("system", "cpu memory pids"), ("system/ours", "")):
        folder = root / place
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(controllers)
    (tmp_path / "mountinfo").write_text(f"30 20 0:25 / {root} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n")
    (tmp_path / "cgroup-own").write_text("0::/system/ours\n")
    return root


def make(folder: Path, limits: Limits) -> Cgroup | None:
    """The real thing makes `cgroup.procs` by itself; here the test does, as soon as the folder is there."""
    original = Path.mkdir

    def mkdir(path: Path) -> None:
        original(path)
        (path / "cgroup.procs").touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", mkdir)
        return Cgroup.make("x", limits, mounts=folder / "mountinfo", own=folder / "cgroup-own")


def test_version_2_gets_its_files_beside_our_own_group(unified: Path, tmp_path: Path) -> None:
    group = make(tmp_path, ALL)
    assert group is not None
    (folder,) = group.folders
    assert folder == unified / "system" / "proctor-x"
    written = {path.name: path.read_text() for path in folder.iterdir() if path.name != "cgroup.procs"}
    assert written == {"memory.max": str(100 << 20), "pids.max": "50", "cpu.max": "150000 100000"}
    assert group.controllers == {"memory", "pids", "cpu"}
    assert len(group.join_fds) == 1


def test_a_controller_that_is_not_passed_on_is_asked_for(unified: Path, tmp_path: Path) -> None:
    (unified / "system" / "cgroup.subtree_control").write_text("cpu")
    assert make(tmp_path, ALL) is not None
    assert (unified / "system" / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_no_limit_needs_no_group(unified: Path, tmp_path: Path) -> None:
    assert make(tmp_path, Limits(wall_seconds=3, disk_mb=5)) is None


def test_without_control_groups_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text("30 20 0:25 / /proc rw - proc proc rw\n")
    (tmp_path / "cgroup-own").write_text("")
    assert make(tmp_path, ALL) is None


def test_limits_without_a_cgroup_become_rlimits_of_each_command() -> None:
    limits = Limits(memory_mb=100, processes=50, cpus=1, disk_mb=10)
    alone = limits_for_command(limits, frozenset(), isolated=True)
    always = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 10 << 20}
    assert alone.rlimits == always | {resource.RLIMIT_DATA: 100 << 20, resource.RLIMIT_NPROC: 51}
    assert len(alone.processors) == 1
    held = limits_for_command(limits, frozenset({"memory", "pids", "cpu"}), isolated=True)
    assert held.rlimits == always
    assert held.processors == ()
    # Outside an environment the kernel would count all processes of the user.
    assert resource.RLIMIT_NPROC not in limits_for_command(limits, frozenset(), isolated=False).rlimits
