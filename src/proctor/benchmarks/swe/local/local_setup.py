"""Instances in local environments."""

import asyncio
import shutil
import subprocess
from functools import cached_property
from pathlib import Path

import msgspec

from proctor.benchmarks.data import repository_url
from proctor.benchmarks.python_envs import (
    VENV_DIR,
    choose_interpreter,
    find_interpreters,
    hidden_site_packages,
    venv_variables,
)
from proctor.benchmarks.swe.instance_setup import StartState
from proctor.benchmarks.swe.local.build import (
    WORKDIR,
    LocalSetup,
    LocalSetupSpec,
    ensure_local_setup,
    site_packages_mounts,
)
from proctor.benchmarks.swe.local.network_tests import missing_network
from proctor.benchmarks.swe.local.official_scripts import adapt_eval_script, image_setup, locale_deviations
from proctor.benchmarks.swe.local.pins import read_pins
from proctor.benchmarks.swe.rows import SweBenchRow, SweEvoRow, SweRow
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentSpec, Limits, Mount, Network
from proctor.core.errors import InfrastructureError, InvalidData, ProctorError
from proctor.core.task import DirectorySource
from proctor.workspaces import BaseTree, base_of


class LocalInstanceSetup:
    """Implements `InstanceSetup` for `local`."""

    provider_name = "local"

    def __init__(self, row: SweRow, start_state: StartState) -> None:
        self.workdir = start_state.workdir
        self._row = row
        self._start = start_state

    def missing_requirement(self, gpus: int = 0) -> str | None:
        """Why this machine cannot set the instance up; None when no reason is known without trying."""
        try:
            _ = self._setup_spec
        except ProctorError as error:
            return error.sentence
        return None

    def deviations(self) -> tuple[str, ...]:
        """Another Python, or ASCII, where this machine has neither the official one nor a UTF-8 locale."""
        official, here = self._setup_spec.pins.python, self._setup_spec.interpreter.version
        python = () if here == official else (f"Python {here} instead of {official}",)
        return (*python, *locale_deviations(_eval_script(self._row)))

    async def agent_spec(self, folder: Path) -> EnvironmentSpec:
        """The prepared tree, and the virtual environment with the project installed."""
        del folder
        return await self._spec_with_network(Network.MODEL)

    async def ignored_directories(self, environment_digest: str) -> tuple[str, ...]:
        """A checkout has nothing but the repository."""
        del environment_digest
        return ()

    async def base(self, environment_digest: str) -> BaseTree:
        """What git has in the prepared tree."""
        del environment_digest
        setup = await self._local_setup()
        return await asyncio.to_thread(base_of, DirectorySource(path=str(setup.start_tree)))

    def grading_spec(self) -> EnvironmentSpec:
        """Without network: all that is needed is there."""
        return EnvironmentSpec(
            workdir=self.workdir,
            network=Network.NONE,
            mounts=self._setup_spec.interpreter.mounts,
            hidden=hidden_site_packages(self._setup_spec.interpreter),
            variables=venv_variables(),
            limits=Limits(output_bytes=100_000_000),
        )

    async def prepare_spec(self, spec: EnvironmentSpec, folder: Path) -> EnvironmentSpec:
        """The grading environment with the prepared tree and the virtual environment."""
        del folder
        setup = await self._local_setup()
        mounts = (*spec.mounts, Mount(source=str(setup.venv), target=VENV_DIR, private=True))
        return msgspec.structs.replace(
            spec,
            workspace=setup.tree,
            mounts=(*mounts, *site_packages_mounts(self._setup_spec.interpreter, setup.venv)),
        )

    def adapt_script(self, official_script: str) -> str:
        """The eval script without conda and without network."""
        return adapt_eval_script(official_script)

    async def _spec_with_network(self, network: Network) -> EnvironmentSpec:
        spec = await self.prepare_spec(self.grading_spec(), Path())
        return msgspec.structs.replace(spec, network=network, limits=Limits())

    async def _local_setup(self) -> LocalSetup:
        return await ensure_local_setup(self._setup_spec)

    @cached_property
    def _setup_spec(self) -> LocalSetupSpec:
        row = self._row
        if not isinstance(row, SweBenchRow | SweEvoRow) or self.workdir != WORKDIR:
            raise _missing_requirement_error("its environment is known as a container image alone")
        if not row.environment_yml:
            raise _missing_requirement_error(
                "its pins are not in the data",
                fix="fetch it from a clone of https://github.com/SWE-bench/swe-bench-tasks with --from",
            )
        try:
            pins = read_pins(row.environment_yml, where=row.instance_id)
        except InvalidData as error:
            raise _missing_requirement_error(error.what) from error
        if pins.conda_only:
            raise _missing_requirement_error(
                f"it needs {', '.join(pins.conda_only)}, which conda has and pip cannot bring"
            )
        no_network = missing_network(row)
        if no_network is not None:
            raise _missing_requirement_error(no_network, fix="use --runner docker")
        steps = image_setup(row.dockerfile, _eval_script(row))
        missing = [name for name in steps.system_packages if not _has_system_package(name)]
        if missing:
            raise _missing_requirement_error(f"it needs the system packages {' '.join(missing)}", fix="install them")
        there = find_interpreters()
        interpreter = choose_interpreter(pins.python, there)
        if interpreter is None:
            have = ", ".join(one.version for one in there) or "none"
            raise _missing_requirement_error(f"it needs Python {pins.python} or a newer one; this machine has {have}")
        return LocalSetupSpec(
            instance_id=row.instance_id,
            url=repository_url(row.repo),
            commit=row.base_commit,
            pins=pins,
            image_setup=steps,
            interpreter=interpreter,
        )


def _eval_script(row: SweRow) -> str:
    return row.eval_script if isinstance(row, SweBenchRow) else ""


def _has_system_package(package: str) -> bool:
    """Whether a Debian package is on this machine; a program of its name will do."""
    if shutil.which(package):
        return True
    query = shutil.which("dpkg-query")
    if query is None:
        return False
    done = subprocess.run([query, "--show", package], capture_output=True, check=False, timeout=30)
    return done.returncode == 0


def _missing_requirement_error(why: str, *, fix: str | None = None) -> InfrastructureError:
    return InfrastructureError(why, fix=fix, cause=Cause.NOT_RUNNABLE_HERE)
