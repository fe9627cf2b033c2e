"""Files that nothing in an environment can change, replace or move."""

import os
from pathlib import Path

import pytest

from environment_factory import make_provider, sh
from proctor.core.environment import EnvironmentSpec, OneShotCommand
from proctor.core.trees import EXECUTABLE, FILE, FileEntry
from proctor.environments.local import LocalProvider

PINNED = {
    "tests/deep/test_a.py": FileEntry(FILE, b"the test\n"),
    "run": FileEntry(EXECUTABLE, b"#!/bin/sh\necho ran\n"),
}
# Each of these makes the file another one, where nothing is pinned.
ATTACKS = (
    "echo x > tests/deep/test_a.py",
    "echo x >> run",
    "chmod 777 run; echo x > run",
    "rm -f run; echo x > run",
    "mv run other; echo x > run",
    "echo x > new; mv -f new tests/deep/test_a.py",
    "ln -sf /etc/hostname tests/deep/test_a.py",
    "mv tests away; mkdir -p tests/deep; echo x > tests/deep/test_a.py",
    "mv tests/deep tests/away; mkdir -p tests/deep; echo x > tests/deep/test_a.py",
    "python3 -c \"import os; os.rename('tests', 'away')\"; mkdir -p tests/deep; echo x > tests/deep/test_a.py",
    "cd /; mv $OLDPWD /away; mkdir -p $OLDPWD/tests/deep; echo x > $OLDPWD/tests/deep/test_a.py",
    "umount run; umount -l tests/deep/test_a.py; mount -o remount,rw run; echo x > run",
    "unshare -Urm sh -c 'umount -l run; echo x > run'",
)


def tree_of(folder: Path) -> Path:
    tree = folder / "tree"
    (tree / "tests" / "deep").mkdir(parents=True)
    (tree / "tests" / "deep" / "test_a.py").write_bytes(b"the test\n")
    (tree / "run").write_text("#!/bin/sh\necho ran\n")
    (tree / "run").chmod(0o755)
    return tree


@pytest.mark.parametrize("kind", ["local", "docker"])
async def test_pinned_files_survive_every_attack(kind: str, tmp_path: Path) -> None:
    if kind == "docker" and os.geteuid() != 0:
        pytest.skip("only root can enter a container")
    provider = make_provider(kind, tmp_path)
    try:
        async with await provider.start(EnvironmentSpec(workspace=tree_of(tmp_path))) as environment:
            assert await provider.pin_files(environment, PINNED)
            for attack in ATTACKS:
                await sh(environment, attack)
                shown = await sh(environment, "cat tests/deep/test_a.py run; ./run")
                assert shown.stdout == b"the test\n#!/bin/sh\necho ran\nran\n", attack
            beside = await sh(
                environment, "mkdir tests/deep/__pycache__ && echo x > tests/deep/snapshot && echo x > made"
            )
            assert beside.exit_code == 0
            await environment.get(f"{environment.workdir}/tests", tmp_path / "copied")
            assert (tmp_path / "copied" / "deep" / "test_a.py").read_bytes() == b"the test\n"
    finally:
        await provider.close()


async def test_pinned_files_ignore_earlier_changes_and_open_descriptors(tmp_path: Path) -> None:
    provider = make_provider("local", tmp_path)
    try:
        async with await provider.start(EnvironmentSpec(workspace=tree_of(tmp_path))) as environment:
            await sh(environment, "ln -sf /etc/hostname run; rm -r tests/deep")
            holder = "exec 3>> tests/held; (sleep 0.2; echo x >&3; echo x >> tests/held) < /dev/null > /dev/null 2>&1 &"
            await sh(environment, holder)
            assert await provider.pin_files(environment, {**PINNED, "tests/held": FileEntry(FILE, b"held\n")})
            shown = await sh(environment, "sleep 0.5; cat tests/deep/test_a.py tests/held; ./run")
            assert shown.stdout == b"the test\nheld\nran\n"
    finally:
        await provider.close()


@pytest.mark.parametrize("overlay", [True, False])
async def test_a_one_shot_command_cannot_change_what_is_pinned(overlay: bool, tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    provider = LocalProvider(overlay=overlay, environments_dir=tmp_path / "environments")
    try:
        for attack in (*ATTACKS, "echo x > tests/deep/snapshot && cat tests/deep/snapshot >&2"):
            script = f"(cd .; {attack}) > /dev/null 2>&1; cd /workspace; cat tests/deep/test_a.py run; ./run"
            result = await provider.run_once(
                EnvironmentSpec(workspace=tree), OneShotCommand(argv=("sh", "-c", script), pinned=tuple(PINNED))
            )
            assert result.exec_result.stdout == b"the test\n#!/bin/sh\necho ran\nran\n", attack
    finally:
        await provider.close()


async def test_without_isolation_nothing_can_be_pinned(tmp_path: Path) -> None:
    provider = LocalProvider(isolation=False, environments_dir=tmp_path / "environments")
    try:
        async with await provider.start(EnvironmentSpec(workspace=tree_of(tmp_path))) as environment:
            assert not await provider.pin_files(environment, PINNED)
    finally:
        await provider.close()
