"""The virtual environment of a library, built once by the row's own steps.

It is mounted read-only where agents work and tests run. Nothing of the library itself is in it but a pointer to the
workspace.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from proctor.benchmarks.commit0.library import Commit0Library
from proctor.benchmarks.commit0.rows import Commit0Row, Commit0Setup
from proctor.benchmarks.python_envs import (
    VENV_DIR,
    Interpreter,
    VenvBuild,
    build_once,
    cache_dir,
    find_interpreter,
    open_build,
)
from proctor.core.environment import EnvironmentProvider, Mount
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record, read_record, to_json
from proctor.core.task import DirectorySource
from proctor.core.trees import file_paths
from proctor.results.cache import cache_key
from proctor.workspaces import base_of, check_out
from proctor.workspaces.git import run_git

WORKDIR: Final = "/testbed"
_FORMAT_VERSION: Final = "2"  # other steps make other environments
_RECORD_FILE: Final = "venv.json"
# Commands that change the machine itself, which only a container can run.
_CONTAINER_ONLY: Final = (
    "apt",
    "apt-get",
    "add-apt-repository",
    "curl",
    "cargo",
    "/etc/",
    "~/",
    "$HOME",
    "git submodule",
)
_PURELIB: Final = "import sysconfig; print(sysconfig.get_path('purelib'))"
_TEST_TOOLS: Final = "pip install -U pytest pytest-cov coverage pytest-json-report"
_IGNORED_DIRS: Final = frozenset({".git", ".pytest_cache", ".venv", "__pycache__", "build", "dist"})


class Commit0Venv(Record):
    """A virtual environment that was built.

    Attributes:
        skipped_steps: steps that only a container can take, and an installation that failed and is not required.
        packages: what is installed, as pip lists it.
    """

    folder: str
    interpreter: Interpreter
    skipped_steps: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What an environment must show."""
        return (Mount(source=f"{self.folder}/venv", target=VENV_DIR), *self.interpreter.mounts)

    @property
    def generated(self) -> Path:
        """Files that installing has made in the repository and that belong to it: a version, compiled data."""
        return Path(self.folder, "generated")


def venv_key(library: Commit0Library) -> str:
    """Identifies the virtual environment of a library."""
    row = library.row
    return cache_key(_FORMAT_VERSION, to_json(row.setup).decode(), row.base_commit, row.reference_commit)


def cached_venv(library: Commit0Library) -> Commit0Venv | None:
    """The virtual environment, where it has been built."""
    record = _venv_dir(library) / _RECORD_FILE
    return read_record(record, Commit0Venv) if record.is_file() else None


async def ensure_venv(library: Commit0Library, provider: EnvironmentProvider) -> Commit0Venv:
    """The virtual environment, built now if it is not in the cache.

    Raises:
        InfrastructureError: there is no such Python here, or a step fails.
        RetryableError: a package index cannot be reached.
    """
    known = cached_venv(library)
    if known is not None:
        return known
    python = await asyncio.to_thread(find_interpreter, library.row.setup.python)
    target = _venv_dir(library)
    async with build_once(target) as partial:
        if partial is not None:
            await _build_venv(library, provider, python, partial, target)
    return read_record(target / _RECORD_FILE, Commit0Venv)


async def _build_venv(
    library: Commit0Library, provider: EnvironmentProvider, python: Interpreter, partial: Path, target: Path
) -> None:
    (partial / "venv").mkdir()
    # The official images install the oracle: set-up programs may import what they set up.
    tree = await asyncio.to_thread(lambda: library.oracle_tree() or library.stub_tree())
    with tempfile.TemporaryDirectory(prefix="proctor-install-") as scratch:
        workspace, after = Path(scratch) / "workspace", Path(scratch) / "after"
        base = await asyncio.to_thread(base_of, DirectorySource(path=str(tree)))
        await asyncio.to_thread(check_out, base, workspace)
        tag = await asyncio.to_thread(library.oracle_tag)
        if tag is not None:
            await asyncio.to_thread(run_git, ["tag", "--", tag, base.commit], git_dir=workspace / ".git")
        async with open_build(
            provider,
            python,
            partial / "venv",
            name=target.name,
            task_id=library.row.instance_id,
            workdir=WORKDIR,
            workspace=workspace,
        ) as build:
            await build.run(f"{python.executable} -m venv {VENV_DIR}")
            # Old ones install in ways that the official installer does not have.
            await build.run("pip install --upgrade pip")
            skipped = [*_container_only_commands(library.row.setup), *await _install(build, library.row)]
            packages = await build.run("pip freeze --all")
            # It holds copies of other people's libraries, some of which are tasks.
            await build.run("pip uninstall -y pip")
            await build.environment.get(WORKDIR, after)
        await asyncio.to_thread(_keep_generated, workspace, after, partial / "generated")
    venv = Commit0Venv(
        folder=str(target),
        interpreter=python,
        skipped_steps=tuple(skipped),
        packages=tuple(packages.decode("utf-8", "replace").splitlines()),
    )
    (partial / _RECORD_FILE).write_bytes(to_json(venv))


async def _install(build: VenvBuild, row: Commit0Row) -> list[str]:
    """Take the row's own steps; those that failed and are not required.

    Some libraries cannot be installed by today's tools any more. Their tests may still run: the workspace is put where
    Python looks for it, and `validate` reports what the oracle then passes.
    """
    failed = []
    for step in _install_steps(row.setup):
        try:
            await build.run(step)
        except InfrastructureError:
            if step != row.setup.install:
                raise
            failed.append(step)
            root = PurePosixPath(WORKDIR, row.src_dir).parent
            await build.run(f'echo {root} >"$(python -c "{_PURELIB}")/workspace.pth"')
    return failed


def _install_steps(setup: Commit0Setup) -> Iterator[str]:
    skipped = set(_container_only_commands(setup))
    yield from (command for command in setup.pre_install or () if command not in skipped)
    yield from (f"pip install -r {file}" for file in setup.requirement_files())
    if setup.pip_packages:
        yield "pip install " + " ".join(f"'{package}'" for package in setup.pip_packages)
    if setup.install:
        yield setup.install
    yield _TEST_TOOLS


def _container_only_commands(setup: Commit0Setup) -> Iterator[str]:
    yield from (command for command in setup.pre_install or () if any(word in command for word in _CONTAINER_ONLY))


def _keep_generated(before: Path, after: Path, kept: Path) -> None:
    old = set(file_paths(before))
    kept.mkdir()
    for path in file_paths(after):
        name = Path(os.fsdecode(path))
        if path in old or _IGNORED_DIRS & set(name.parts) or any(part.endswith(".egg-info") for part in name.parts):
            continue
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(after / name, kept / name, follow_symlinks=False)


def _venv_dir(library: Commit0Library) -> Path:
    return cache_dir("commit0", "venvs", f"{library.row.name}-{venv_key(library)[:16]}")
