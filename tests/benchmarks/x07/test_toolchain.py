from pathlib import Path

import pytest

from proctor.benchmarks.x07.toolchain import find_toolchain, make_toolchain, x07_mounts, x07_version
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError
from x07_world import STANDIN


def test_without_x07_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("X07_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match=r"X07_BIN.*PATH") as caught:
        find_toolchain()
    assert caught.value.cause is Cause.MISSING_PROGRAM
    assert x07_version() is None
    monkeypatch.setenv("X07_BIN", str(STANDIN))
    assert find_toolchain().program == str(STANDIN)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert str(x07_version()).startswith("0.")


def mounted(program: Path) -> list[str]:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.touch()
    mounts = x07_mounts(program)
    assert all(mount.source == mount.target and not mount.writable for mount in mounts)
    return [mount.source for mount in mounts]


def test_an_environment_sees_the_installed_toolchain(tmp_path: Path) -> None:
    program = tmp_path / "x07-0.2" / "bin" / "x07"
    assert mounted(program) == [str(program)]
    (tmp_path / "x07-0.2" / "stdlib.lock").touch()
    assert mounted(program) == [str(tmp_path / "x07-0.2")]
    link = tmp_path / "link"
    link.symlink_to(program)
    assert make_toolchain(link) == make_toolchain(program)
    assert mounted(STANDIN) == [str(STANDIN.parent)]


def test_where_x07up_chooses_among_toolchains_an_environment_sees_all_of_them(tmp_path: Path) -> None:
    (tmp_path / ".x07" / "toolchains" / "v0.2.17").mkdir(parents=True)
    assert mounted(tmp_path / ".x07" / "bin" / "x07") == [str(tmp_path / ".x07")]


def test_an_environment_sees_neither_x07s_sources_nor_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "stdlib.lock"
    lock.touch()
    built = tmp_path / "target" / "release" / "x07"
    assert mounted(built) == [str(built), str(lock)]
    monkeypatch.setenv("HOME", str(tmp_path))
    private = tmp_path / "bin" / "x07"
    assert mounted(private) == [str(private), str(lock)]
