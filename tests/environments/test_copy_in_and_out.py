"""What every environment promises about files that go in and come out."""

import os
import stat
from pathlib import Path

import pytest

from environment_factory import Environments, sh
from proctor.core.environment import Limits
from proctor.core.errors import LimitReached, UsageError
from waiting import limits


def tree(folder: Path) -> Path:
    """A small tree with what trees have."""
    folder.mkdir()
    (folder / "plain.txt").write_text("text\n")
    (folder / "program").write_text("#!/bin/sh\necho run\n")
    (folder / "program").chmod(0o755)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "file").write_bytes(bytes(range(256)))
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("plain.txt")
    (folder / "away").symlink_to("/etc/passwd")
    (folder / os.fsdecode(b"n\xc3\xa4me with spaces")).write_text("x")
    return folder


def listing(folder: Path) -> dict[str, object]:
    """All that matters of a tree."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_dir():
            found[name] = mode
        else:
            found[name] = (mode, path.read_bytes())
    return found


async def test_the_workspace_is_there_and_can_be_changed_without_changing_its_source(
    environments: Environments, tmp_path: Path
) -> None:
    source = tree(tmp_path / "source")
    before = listing(source)
    environment = await environments.start(workspace=source)
    result = await sh(
        environment,
        "cat plain.txt && ./program && echo new >new && echo more >>plain.txt && rm program && rm -r deep && mkdir deep"
        " && chmod 600 link && touch deep/x",
    )
    assert (result.exit_code, result.stdout) == (0, b"text\nrun\n")
    assert listing(source) == before
    await environment.get(environment.workdir, tmp_path / "out")
    after = listing(tmp_path / "out")
    assert after["plain.txt"] == (0o600, b"text\nmore\n")
    assert after["new"] == (0o644, b"new\n")
    assert after["deep/x"] == (0o644, b"")
    assert not {"program", "deep/er", "deep/er/file"} & after.keys()


async def test_a_tree_goes_in_and_comes_out_as_it_was(environments: Environments, tmp_path: Path) -> None:
    source = tree(tmp_path / "source")
    environment = await environments.start()
    await environment.put(source, f"{environment.workdir}/a/b/tree")
    assert (await sh(environment, "a/b/tree/program")).stdout == b"run\n"
    await environment.get(f"{environment.workdir}/a/b/tree", tmp_path / "out")
    assert listing(tmp_path / "out") == listing(source)


async def test_bytes_and_files_go_in_with_their_mode(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    file = tmp_path / "file"
    file.write_text("host\n")
    file.chmod(0o750)
    await environment.put(b"data", f"{environment.workdir}/bytes")
    await environment.put(b"data", f"{environment.workdir}/private", mode=0o600)
    await environment.put(file, f"{environment.workdir}/file")
    await environment.put(file, f"{environment.workdir}/other", mode=0o444)
    result = await sh(environment, "stat -c '%n %a %s' bytes private file other")
    assert result.stdout == b"bytes 644 4\nprivate 600 4\nfile 750 5\nother 444 5\n"


async def test_copied_files_replace_existing_ones(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    source = tree(tmp_path / "source")
    outside = "/tmp" if environments.kind != "plain" else str(tmp_path)
    await sh(
        environment,
        f"echo precious >{outside}/victim; mkdir -p t/plain.txt/inner t/kept; cd t;"
        f" echo keep >kept/file; echo file >deep; ln -s {outside}/victim program; chmod 500 kept",
    )
    await environment.put(source, f"{environment.workdir}/t")
    await environment.get(f"{environment.workdir}/t", tmp_path / "out")
    seen = listing(tmp_path / "out")
    for name, value in listing(source).items():
        assert seen[name] == value
    assert seen["kept/file"] == (0o644, b"keep\n")
    assert (await sh(environment, f"cat {outside}/victim")).stdout == b"precious\n"


async def test_a_single_file_comes_out(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    await sh(environment, "echo content >file; chmod 640 file")
    await environment.get(f"{environment.workdir}/file", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "content\n"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


async def test_a_missing_path_is_reported(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    await sh(environment, "echo x >file")
    for path in ("missing", "missing/file", "file/file"):
        with pytest.raises(FileNotFoundError, match=path):
            await environment.get(f"{environment.workdir}/{path}", tmp_path / "out")
    assert not (tmp_path / "out").exists()


async def test_a_path_must_be_absolute(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    for path in ("relative", "/", "", "/a\0b", "/a/../.."):
        with pytest.raises(UsageError):
            await environment.get(path, tmp_path / "out")
        with pytest.raises(UsageError):
            await environment.put(b"", path)


async def test_a_hostile_tree_comes_out_without_touching_anything_else(
    environments: Environments, tmp_path: Path
) -> None:
    environment = await environments.start()
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "secret").write_text("secret")
    await sh(
        environment,
        f"""
        mkdir -p t/dir t/closed/inner; cd t
        mkfifo fifo; ln -s /etc/shadow shadow; ln -s .. up; ln -s {tmp_path}/host host; ln -s loop loop
        echo hidden >closed/inner/file; echo unreadable >locked; chmod 000 locked closed/inner closed
        echo twin >twin; ln twin hard
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
        printf x >"$(printf 'bad\\377name')"; printf x >'-rf'; printf x >"$(printf 'new\\nline')"
        """,
    )
    await environment.get(f"{environment.workdir}/t", tmp_path / "out")
    out = tmp_path / "out"
    assert str((out / "shadow").readlink()) == "/etc/shadow"
    assert str((out / "up").readlink()) == ".."
    assert str((out / "loop").readlink()) == "loop"
    assert (out / "host").readlink() == tmp_path / "host"
    assert not (out / "fifo").exists()
    assert not (out / "socket").exists()
    assert (out / "hard").read_text() == "twin\n"
    assert (out / os.fsdecode(b"bad\xffname")).read_text() == "x"
    assert (out / "new\nline").read_text() == "x"
    for name in ("locked", "closed"):
        assert stat.S_IMODE((out / name).stat().st_mode) == 0
        (out / name).chmod(0o700)
    assert (out / "locked").read_text() == "unreadable\n"
    (out / "closed" / "inner").chmod(0o700)
    assert (out / "closed" / "inner" / "file").read_text() == "hidden\n"
    assert (tmp_path / "host" / "secret").read_text() == "secret"


async def test_a_symlink_at_the_target_is_not_followed(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    await sh(environment, "mkdir t; echo new >t/file")
    victim = tmp_path / "victim"
    victim.write_text("old")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").symlink_to(victim)
    await environment.get(f"{environment.workdir}/t", tmp_path / "out")
    assert victim.read_text() == "old"
    assert (tmp_path / "out" / "file").read_text() == "new\n"


async def test_more_than_allowed_is_refused_and_nothing_is_left(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start(limits=Limits(disk_mb=2 << 20))
    for script in ("truncate -s 1T t/sparse", "head -c 3000000 /dev/zero >t/large"):
        await sh(environment, f"rm -rf t; mkdir t; echo x >t/a; {script}")
        with pytest.raises(LimitReached, match="size of the copy"):
            await environment.get(f"{environment.workdir}/t", tmp_path / "out", max_bytes=1_000_000)
        assert not (tmp_path / "out").exists()


async def test_many_small_files_count_too(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    await sh(environment, "mkdir t; cd t; seq 3000 | xargs touch")
    with pytest.raises(LimitReached):
        await environment.get(f"{environment.workdir}/t", tmp_path / "out", max_bytes=1_000_000)
    await environment.get(f"{environment.workdir}/t", tmp_path / "out", max_bytes=2_000_000)
    assert len(list((tmp_path / "out").iterdir())) == 3000


async def test_a_tree_nested_without_end_is_refused(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    script = "import os\nfor _ in range(3000):\n os.mkdir('d'); os.chdir('d')"

    async def nest_and_copy() -> None:
        assert (await sh(environment, f'mkdir t; cd t; python3 -c "{script}"')).exit_code == 0
        await environment.get(f"{environment.workdir}/t", tmp_path / "out")

    # Whoever sees the tree first refuses it: the environment's watch over its disk, or the copy.
    with pytest.raises(LimitReached, match="depth"):
        await nest_and_copy()
    assert not (tmp_path / "out").exists()


async def test_names_swapped_for_symlinks_while_a_tree_comes_out_lead_nowhere(
    environments: Environments, tmp_path: Path
) -> None:
    environment = await environments.start()
    victims = tmp_path / "victims"
    victims.mkdir()
    (victims / "file").write_text("secret of the host")
    script = f"""
import os
os.makedirs("t/dir", exist_ok=True)
while True:
    for name, target in (("t/dir", "{victims}"), ("t/file", "{victims}/file")):
        try:
            if os.path.islink(name):
                os.unlink(name)
            elif os.path.isdir(name):
                os.rename(name, "aside"); os.unlink("aside/file"); os.rmdir("aside")
            else:
                os.unlink(name)
            os.symlink(target, name)
            os.unlink(name)
            if name == "t/dir":
                os.mkdir(name); open("t/dir/file", "w").write("own")
            else:
                open(name, "w").write("own")
        except OSError:
            pass
"""
    await environment.put(script.encode(), f"{environment.workdir}/race.py")
    await sh(environment, "mkdir t; nohup python3 race.py >/dev/null 2>&1 &")
    for number in range(30):
        out = tmp_path / f"out{number}"
        await environment.get(f"{environment.workdir}/t", out)
        for path in out.rglob("*"):
            if path.is_file() and not any(part.is_symlink() for part in (path, path.parent)):
                assert path.read_text() in {"", "own"}


async def test_the_workspace_can_be_had_after_the_clock_has_ended_the_environment(
    environments: Environments, tmp_path: Path
) -> None:
    source = tree(tmp_path / "source")
    said: list[bytes] = []
    for seconds in limits(2):
        environment = await environments.start(workspace=source, limits=Limits(wall_seconds=seconds))
        with pytest.raises(LimitReached, match="wall clock"):
            await sh(
                environment,
                "echo late >late; rm program; mkdir sub; echo in >sub/file; echo; sleep 1000",
                on_stdout=said.append,
            )
        if said:
            break
    with pytest.raises(LimitReached, match="wall clock"):
        await sh(environment, "true")
    await environment.get(environment.workdir, tmp_path / "out")
    seen = listing(tmp_path / "out")
    assert seen["late"] == (0o644, b"late\n")
    assert seen["plain.txt"] == (0o644, b"text\n")
    assert "program" not in seen
    await environment.get(f"{environment.workdir}/sub/file", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "in\n"
    with pytest.raises(FileNotFoundError):
        await environment.get(f"{environment.workdir}/sub/missing", tmp_path / "none")


async def test_a_large_file_goes_both_ways(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    data = os.urandom(1 << 20) * 20
    (tmp_path / "large").write_bytes(data)
    await environment.put(tmp_path / "large", f"{environment.workdir}/large")
    await environment.get(f"{environment.workdir}/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data


async def test_mounts_are_shown_and_only_writable_ones_can_be_written(sealed: Environments, tmp_path: Path) -> None:
    from proctor.core.environment import Mount

    for name in ("fixed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    environment = await sealed.start(
        mounts=(
            Mount(source=str(tmp_path / "fixed"), target="/shown/fixed"),
            Mount(source=str(tmp_path / "open"), target="/shown/open", writable=True),
        )
    )
    result = await sh(environment, "cat /shown/*/file; echo x >/shown/open/new; echo x >/shown/fixed/new")
    assert result.stdout == b"fixedopen"
    assert result.exit_code != 0
    assert (tmp_path / "open" / "new").read_text() == "x\n"
    assert not (tmp_path / "fixed" / "new").exists()


async def test_files_that_change_all_the_time_are_copied_every_time(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    script = """
import os
open("changing", "w").close()
if os.fork() == 0:
    os.setsid()
    while True:
        for size in (0, 1 << 22):
            os.truncate("changing", size)
"""
    assert (await environment.exec(["python3", "-c", script])).exit_code == 0
    for number in range(15):
        await environment.get(environment.workdir, tmp_path / f"out{number}")
        assert (tmp_path / f"out{number}" / "changing").exists()
