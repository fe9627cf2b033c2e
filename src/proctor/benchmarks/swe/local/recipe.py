"""Instances in local rooms."""

import asyncio
import os
import shutil
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.swe.local.interpreters import choose, interpreters
from proctor.benchmarks.swe.local.pins import read_pins
from proctor.benchmarks.swe.local.scripts import ENV, for_room, set_up
from proctor.benchmarks.swe.local.setting import (
    WORKDIR,
    Setting,
    Wanted,
    hidden_by,
    mounts_of,
    packages_for,
    settled,
    variables,
)
from proctor.benchmarks.swe.recipe import Start
from proctor.benchmarks.swe.rows import EvoRow, Row, SweBenchRow
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentSpec, Limits, Mount, Network
from proctor.core.errors import InfrastructureError, InvalidData, ProctorError
from proctor.core.places import cache_root
from proctor.core.task import DirectorySource
from proctor.workspaces import Base, base_of

REPOSITORIES: Final = "PROCTOR_REPOSITORIES"
# Tests of requests that connect to an address where nobody answers. Without a route the error is there at once, and
# it is another one than they expect.
_LOST: Final = ("TestTimeout::test_connect_timeout", "TestTimeout::test_total_timeout_connect")


class LocalRecipe:
    """Implements `recipe.Recipe` for `local`."""

    kind = "local"

    def __init__(self, row: Row, start: Start) -> None:
        self.workdir = start.workdir
        self._row = row
        self._start = start

    def obstacle(self) -> str | None:
        """Why this machine cannot set the instance up; None when it can, as far as can be told without trying."""
        try:
            _ = self._wanted
        except ProctorError as error:
            return error.sentence
        return None

    def deviations(self) -> tuple[str, ...]:
        """Another Python, where this machine does not have the official one."""
        official, here = self._wanted.pins.python, self._wanted.interpreter.version
        return () if here == official else (f"Python {here} in the place of {official}",)

    async def agent_room(self, folder: Path) -> EnvironmentSpec:
        """The prepared tree, beside the environment with the project installed."""
        del folder
        return await self._furnished(Network.MODEL)

    async def ignored(self, started_from: str) -> tuple[str, ...]:
        """A checkout has nothing but the repository."""
        del started_from
        return ()

    async def base(self, started_from: str) -> Base:
        """What git has in the prepared tree."""
        del started_from
        setting = await self._settled()
        return await asyncio.to_thread(base_of, DirectorySource(path=str(setting.start)))

    def grading_room(self) -> EnvironmentSpec:
        """Without network: all that is needed is there."""
        return EnvironmentSpec(
            workdir=self.workdir,
            network=Network.NONE,
            mounts=mounts_of(self._wanted.interpreter),
            hidden=hidden_by(self._wanted.interpreter),
            variables=variables(),
            limits=Limits(output_bytes=100_000_000),
        )

    async def furnish(self, room: EnvironmentSpec, folder: Path) -> EnvironmentSpec:
        """The grading room with the prepared tree and the environment in it."""
        del folder
        setting = await self._settled()
        mounts = (*room.mounts, Mount(source=str(setting.env), target=ENV, private=True))
        return msgspec.structs.replace(
            room, workspace=setting.tree, mounts=(*mounts, *packages_for(self._wanted.interpreter, setting.env))
        )

    def script(self, official: str) -> str:
        """The eval script without conda and without network."""
        return for_room(official)

    async def _furnished(self, network: Network) -> EnvironmentSpec:
        room = await self.furnish(self.grading_room(), Path())
        return msgspec.structs.replace(room, network=network, limits=Limits())

    async def _settled(self) -> Setting:
        return await settled(self._wanted, cache=cache_root().absolute())

    @cached_property
    def _wanted(self) -> Wanted:
        row = self._row
        if not isinstance(row, SweBenchRow | EvoRow) or self.workdir != WORKDIR:
            raise _not_here("its environment is known as a container image alone")
        if not row.environment_yml:
            raise _not_here(
                "its pins are not in the data",
                fix="fetch it from a clone of https://github.com/SWE-bench/swe-bench-tasks with --from",
            )
        try:
            pins = read_pins(row.environment_yml, where=row.instance_id)
        except InvalidData as error:
            raise _not_here(error.what) from error
        if pins.conda_only:
            raise _not_here(f"it needs {', '.join(pins.conda_only)}, which conda has and pip cannot bring")
        lost = [label for label in (*row.fail_to_pass, *row.pass_to_pass) if any(test in label for test in _LOST)]
        if lost:
            raise _not_here(f"{lost[0]} waits for packets that get lost, and where there is no network none are sent")
        steps = set_up(row.dockerfile, row.eval_script if isinstance(row, SweBenchRow) else "")
        missing = [name for name in steps.system_packages if not _installed(name)]
        if missing:
            raise _not_here(f"it needs the system packages {' '.join(missing)}", fix="install them")
        there = interpreters()
        interpreter = choose(pins.python, there)
        if interpreter is None:
            have = ", ".join(one.version for one in there) or "none"
            raise _not_here(f"it needs Python {pins.python} or a newer one; this machine has {have}")
        return Wanted(
            instance=row.instance_id,
            url=repository(row.repo),
            commit=row.base_commit,
            pins=pins,
            set_up=steps,
            interpreter=interpreter,
        )


def repository(name: str) -> str:
    """Where a repository is had: a clone in the folder that $PROCTOR_REPOSITORIES names, or GitHub."""
    folder = os.environ.get(REPOSITORIES)
    if folder:
        for form in (name, f"{name}.git", name.replace("/", "__"), name.replace("/", "+")):
            for place in (Path(folder, form), Path(folder, form, "repo")):
                if (place / "HEAD").is_file() or (place / ".git").exists():
                    return str(place)
    return f"https://github.com/{name}"


def _installed(package: str) -> bool:
    """Whether a Debian package is on this machine; a program of its name will do."""
    if shutil.which(package):
        return True
    query = shutil.which("dpkg-query")
    if query is None:
        return False
    done = subprocess.run([query, "--show", package], capture_output=True, check=False, timeout=30)
    return done.returncode == 0


def _not_here(why: str, *, fix: str | None = None) -> InfrastructureError:
    return InfrastructureError(why, fix=fix, cause=Cause.NOT_RUNNABLE_HERE)
