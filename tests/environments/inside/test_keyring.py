"""The kernel's keyrings: what one environment, or the user, keeps in one is not to be had in another."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from environment_factory import Environments
from proctor.core.environment import EnvironmentSpec, OneShotCommand
from proctor.environments.local import LocalProvider
from proctor.environments.seccomp import key_filter_program

# add NAME: keep a key in the session keyring and the user's; find NAME: look for it there and in all that is reachable.
KEYS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
SESSION, USER, USER_SESSION = -3, -4, -5
SEARCH, READ, JOIN = 10, 11, 1
verb, name = sys.argv[1], sys.argv[2].encode()
if verb == "own":  # stands for the session of a user who has logged in
    libc.syscall(keyctl, JOIN, None)
    libc.syscall(add_key, b"user", name, b"secret", 6, SESSION)
    os.execvp(sys.argv[3], sys.argv[3:])
found = []
for keyring in (SESSION, USER, USER_SESSION):
    if verb == "add":
        ended = libc.syscall(add_key, b"user", name, b"secret", 6, keyring)
    else:
        ended = libc.syscall(keyctl, SEARCH, keyring, b"user", name, 0)
    found.append(ended if ended > 0 else -ctypes.get_errno())
print(*found)
"""
INSIDE = ["python3", "-c", KEYS]


async def found(environments: Environments, name: str) -> list[int]:
    environment = await environments.start()
    return [int(word) for word in (await environment.exec([*INSIDE, "find", name])).stdout.split()]


async def test_a_key_of_one_environment_is_not_in_another(local: Environments) -> None:
    first = await local.start()
    name = f"proctor-test-{os.getpid()}"
    added = (await first.exec([*INSIDE, "add", name])).stdout.split()
    assert int(added[0]) > 0, "an environment can use its own session keyring"
    again = (await first.exec([*INSIDE, "find", name])).stdout.split()
    assert again[0] == added[0], "and what is kept there is there for its later commands"
    assert max(await found(local, name)) < 0


def test_a_key_of_the_user_is_not_in_an_environment(tmp_path: Path) -> None:
    """In a process of its own, which has a session keyring with a key in it, as after a login."""
    script = f"""
import asyncio
from pathlib import Path
from proctor.core.environment import EnvironmentSpec, OneShotCommand
from proctor.environments.local import LocalProvider

KEYS = {KEYS!r}
async def main():
    provider = LocalProvider(environments_dir=Path({str(tmp_path)!r}))
    find = ("python3", "-c", KEYS, "find", "of-the-user")
    async with await provider.start(EnvironmentSpec()) as environment:
        print("environment", (await environment.exec(find)).stdout.decode().strip())
    done = await provider.run_once(EnvironmentSpec(), OneShotCommand(argv=find))
    print("once", done.exec_result.stdout.decode().strip())
    await provider.close()
asyncio.run(main())
"""
    command = [sys.executable, "-c", KEYS, "own", "of-the-user", sys.executable, "-c", f"{KEYS}\n{script}", "find"]
    done = subprocess.run([*command, "of-the-user"], capture_output=True, text=True, check=True)
    outside, environment, once = (line.split() for line in done.stdout.splitlines())
    assert int(outside[0]) > 0, "it is there outside"
    assert max(map(int, environment[1:])) < 0
    assert max(map(int, once[1:])) < 0


async def test_a_one_shot_command_cannot_reach_keys(tmp_path: Path) -> None:
    provider = LocalProvider(environments_dir=tmp_path)
    done = await provider.run_once(EnvironmentSpec(), OneShotCommand(argv=(*INSIDE, "add", "any")))
    await provider.close()
    assert done.exec_result.stdout.split() == [b"-1", b"-1", b"-1"]


def test_where_no_keyring_can_be_had_keys_are_refused() -> None:
    """As when an environment has used up all the keys that the user may have."""
    script = f"""
import os, sys, ctypes
sys.path.insert(0, {str(Path(__file__).parents[3] / "src/proctor/environments")!r})
from inside.keyring import refuse_keys
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
refuse_keys(bytes.fromhex({key_filter_program().hex()!r}))
os.execvp(sys.executable, [sys.executable, "-c", {KEYS!r}, "add", "any"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["-1", "-1", "-1"]


@pytest.fixture(autouse=True)
def _keyrings() -> None:
    """These tests need a kernel that has keyrings."""
    number = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    if number is None or ctypes.CDLL(None).syscall(number, 0, -3, 1) < 0:
        pytest.skip("this kernel has no keyrings")
