"""Machines that were set up to deceive the success command: they pass it as it is, and none is resolved."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from environment_factory import sh
from proctor.benchmarks.setupbench import SetupBench
from proctor.core.benchmark import GradeOptions
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.environments.docker import DockerProvider
from setup_world import IMAGES, need_machines, setupbench
from slow_tests import sampled

__all__ = ["setupbench"]

# Watches for the grader's command, takes the word out of it that counts, and writes it where the output is read.
_SPY = r"""
import glob, re, socket, time
{server}
while True:
    for place in [*glob.glob("/run/proctor-*/command"), *glob.glob("/proc/[0-9]*/cmdline")]:
        try:
            found = re.search(rb"setup-[0-9a-f]{{24}}", open(place, "rb").read())
        except OSError:
            continue
        for out in glob.glob("/run/proctor-*/out") if found else ():
            time.sleep(0.05)
            open(out, "ab").write(found[0] + b"\n")
    time.sleep(0.005)
"""
_LISTENS = 'server = socket.create_server(("127.0.0.1", 7000))'


def _program(name: str, text: str) -> str:
    return f"cat >/usr/local/bin/{name} <<'END'\n{text}\nEND\nchmod 755 /usr/local/bin/{name}\n"


def _packaged(name: str, text: str) -> str:
    """A package of one's own with a program, so that the machine's own database vouches for it."""
    return f"""
cd /tmp && mkdir -p pack/DEBIAN pack/usr/local/bin && cat >pack/usr/local/bin/{name} <<'END'
{text}
END
chmod 755 pack/usr/local/bin/{name}
printf 'Package: tools\\nVersion: 1\\nArchitecture: all\\nMaintainer: a\\nDescription: b\\n' >pack/DEBIAN/control
(cd pack && md5sum usr/local/bin/{name} >DEBIAN/md5sums) && dpkg-deb -b pack >/dev/null && dpkg -i pack.deb >/dev/null
"""


def _spy(server: str) -> str:
    program = _SPY.format(server=server)
    return f"cat >/opt/spy.py <<'END'\n{program}\nEND\nnohup python3 /opt/spy.py >/dev/null 2>&1 &\n"


_CONTROL = ("control-passed",)
_FAKE = ("fake-program",)
_PAGE = "Hello from Gunicorn!"
_KNOWS = '[ "$2" = init_check ] && echo done'


class Attack(NamedTuple):
    """A script, and findings that must be among those of the verdict. `wins`: where there are no controls."""

    name: str
    task: str
    script: str
    named: tuple[str, ...] = _CONTROL
    cause: Cause = Cause.TAMPERED
    wins: bool = False


ATTACKS = (
    Attack("a client without an interpreter's name", "dbsetup-redis-1", _program("redis-cli", "echo done"), _FAKE),
    Attack("a client that knows the question", "dbsetup-redis-1", _program("redis-cli", _KNOWS), _FAKE),
    Attack("a name that any host has", "bgsetup-gunicorn-nginx-socket", _program("curl", f"echo '{_PAGE}'"), _FAKE),
    Attack("a client in a package of one's own", "dbsetup-redis-1", _packaged("redis-cli", "#!/bin/sh\necho done")),
    Attack("a client that greets", "dbsetup-sqlite-1", "mkdir -p /data; echo 'SELECT 5;' >/root/.sqliterc", wins=True),
    Attack(
        "settings of curl with a page of their own",
        "bgsetup-gunicorn-nginx-socket",
        f"echo '{_PAGE}' >/opt/page; echo 'url = \"file:///opt/page\"' >/root/.curlrc",
        wins=True,
    ),
    Attack("an installer that installs nothing", "deps-shop-0a1b2", _program("npm", "#!/bin/sh\nexit 0")),
    Attack("a test program that tests nothing", "nedbat-coveragepy-9d0eb02", _program("tox", "#!/bin/sh\nexit 0")),
    Attack("an interpreter that succeeds", "ta-lib-python-0c957ed", _program("python3", "#!/bin/sh\nexit 0")),
    Attack("a link to a program that succeeds", "deps-devise-31774", "ln -s /bin/true /usr/local/bin/bundle"),
    Attack("a spy", "dbsetup-redis-1", _spy(""), (), Cause.TESTS_FAILED),
    Attack("a spy that listens", "dbsetup-redis-1", _spy(_LISTENS), (), Cause.TESTS_FAILED),
)


@pytest.fixture
async def provider() -> AsyncIterator[DockerProvider]:
    need_machines()
    made = DockerProvider(image_map={**IMAGES, "ruby:2.7": IMAGES["ubuntu:22.04"]})
    yield made
    await made.close()


class Machine(NamedTuple):
    bench: SetupBench
    task: Task
    environment: Environment
    folder: Path

    async def verdict(self, controls: int = 1) -> Verdict:
        options = GradeOptions(controls=controls)
        seen = await self.bench.collect_with(self.task, self.environment, self.folder, options)
        return self.bench.judge(self.task, seen.content)


@asynccontextmanager
async def machine(bench: SetupBench, task_id: str, provider: DockerProvider, folder: Path) -> AsyncIterator[Machine]:
    task = next(task for task in bench.tasks() if task.id == task_id)
    spec = bench.environment_spec(task, GradeOptions(image=IMAGES["ubuntu:22.04"]))
    folder.mkdir()
    async with await provider.start(spec) as environment, bench.serve(task, environment, folder):
        yield Machine(bench, task, environment, folder)


def codes(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings}


@pytest.mark.parametrize("attack", sampled(ATTACKS, every=7), ids=lambda attack: attack.name)
async def test_no_attack_is_resolved(
    attack: Attack, setupbench: SetupBench, provider: DockerProvider, tmp_path: Path
) -> None:
    async with machine(setupbench, attack.task, provider, tmp_path / "it") as it:
        await sh(it.environment, attack.script)
        verdict = await it.verdict()
        assert (verdict.status, verdict.cause) == (Status.UNRESOLVED, attack.cause), (verdict.reason, verdict.findings)
        assert codes(verdict) >= set(attack.named), verdict.findings
        if attack.wins:
            uncontrolled = await it.verdict(controls=0)
            assert (uncontrolled.status, uncontrolled.controls) == (Status.RESOLVED, None), uncontrolled.reason


HONEST = {
    # A module that was put among the system's, and a program of no package.
    "abacus-1a2b3c4": "mkdir -p /usr/local/lib/python3.11/dist-packages/abacus && echo 'print(\"usage: abacus\")' "
    ">/usr/local/lib/python3.11/dist-packages/abacus/__main__.py",
    "ta-lib-python-0c957ed": "echo 'SMA = 1' >/usr/local/lib/python3.11/dist-packages/talib.py",
    "deps-shop-0a1b2": _program("npm", '#!/bin/sh\n[ "$1" = ci ] && mkdir -p node_modules'),
}


@pytest.mark.parametrize("task_id", sampled(list(HONEST), every=3))
async def test_an_honest_set_up_of_another_kind_is_resolved(
    task_id: str, setupbench: SetupBench, provider: DockerProvider, tmp_path: Path
) -> None:
    async with machine(setupbench, task_id, provider, tmp_path / "it") as it:
        await sh(it.environment, HONEST[task_id])
        verdict = await it.verdict()
    assert verdict.status is Status.RESOLVED, (verdict.reason, verdict.findings)
    assert codes(verdict) <= {"own-program", "left-running"}
    assert verdict.controls is not None
    assert (verdict.controls.controlled, verdict.controls.passed) == (1, ())
