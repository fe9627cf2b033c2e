"""What a local room needs to run a library's tests: a virtual environment, made once by the row's own steps.

It is made in a room with the network open, and shown read-only in the rooms that agents and graders work in, which
have none. Nothing of the library itself is in it but a pointer to the workspace.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Final

from proctor.benchmarks.commit0.interpreters import Commit0Interpreter, find_interpreter
from proctor.benchmarks.commit0.library import Commit0Library
from proctor.benchmarks.commit0.rows import Commit0Row, Commit0Setup
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Mount, Network
from proctor.core.errors import InfrastructureError, RetryableError
from proctor.core.files import file_lock
from proctor.core.paths import cache_root
from proctor.core.record import Record, read_record, to_json
from proctor.core.task import DirectorySource
from proctor.core.trees import file_paths
from proctor.environments.visibility import is_visible
from proctor.results.cache import cache_key
from proctor.workspaces import base_of, check_out
from proctor.workspaces.git import run_git

WORKDIR: Final = "/testbed"
VENV: Final = "/venv"
_FORMAT_VERSION: Final = "1"  # another recipe makes other environments
_STEP_SECONDS: Final = 1800.0
_PATH: Final = f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What changes the machine itself, which is not ours to change.
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
_PIP_VARIABLES: Final = ("PIP_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_IGNORED_DIRS: Final = frozenset({".git", ".pytest_cache", ".venv", "__pycache__", "build", "dist"})


class Commit0Venv(Record):
    """An environment that was made.

    Attributes:
        left_out: steps that only a container can take, and an installation that failed and could be done without.
        packages: what is installed, as pip says it.
    """

    folder: str
    interpreter: Commit0Interpreter
    skipped_steps: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What a room must show."""
        shown = [Mount(source=f"{self.folder}/venv", target=VENV)]
        if not is_visible(Path(self.interpreter.prefix)):
            shown.append(Mount(source=self.interpreter.prefix, target=self.interpreter.prefix))
        return tuple(shown)

    @property
    def generated(self) -> Path:
        """Files that installing has made in the repository and that belong to it: a version, compiled data."""
        return Path(self.folder, "generated")


def venv_key(library: Commit0Library) -> str:
    """Names the environment of a library."""
    row = library.row
    return cache_key(_FORMAT_VERSION, to_json(row.setup).decode(), row.base_commit, row.reference_commit)


def cached_venv(library: Commit0Library) -> Commit0Venv | None:
    """The environment, where it has been made."""
    record = _venv_dir(library) / "installed.json"
    return read_record(record, Commit0Venv) if record.is_file() else None


async def ensure_venv(library: Commit0Library, provider: EnvironmentProvider) -> Commit0Venv:
    """The environment, made now if need be.

    Raises:
        InfrastructureError: there is no such Python here, or a step fails.
    """
    known = cached_venv(library)
    if known is not None:
        return known
    python = await asyncio.to_thread(find_interpreter, library.row.setup.python)
    home = _venv_dir(library)
    home.parent.mkdir(parents=True, exist_ok=True)
    with await _lock_venv(home, library.row.name):
        return cached_venv(library) or await _build_venv(library, provider, python, home)


async def _lock_venv(target: Path, name: str) -> ExitStack:
    """The lock on an environment. Another task, or another command, may be making it: nobody else waits for that."""
    stack = ExitStack()
    while True:
        try:
            lock = target.with_name(f".{target.name}.lock")
            stack.enter_context(file_lock(lock, what=f"the environment of {name}", wait_seconds=0))
        except RetryableError:
            await asyncio.sleep(1)
        else:
            return stack


async def _build_venv(
    library: Commit0Library, provider: EnvironmentProvider, python: Commit0Interpreter, target: Path
) -> Commit0Venv:
    shutil.rmtree(target, ignore_errors=True)
    venv = target / "venv"
    venv.mkdir(parents=True)
    draft = Commit0Venv(folder=str(target), interpreter=python, skipped_steps=(), packages=())
    # The official images install the reference: set-up programs may import what they set up.
    tree = await asyncio.to_thread(lambda: library.oracle_tree() or library.stub_tree())
    with tempfile.TemporaryDirectory(prefix="proctor-install-") as scratch:
        workspace, after = Path(scratch) / "workspace", Path(scratch) / "after"
        base = await asyncio.to_thread(base_of, DirectorySource(path=str(tree)))
        await asyncio.to_thread(check_out, base, workspace)
        tag = await asyncio.to_thread(library.oracle_tag)
        if tag is not None:
            await asyncio.to_thread(run_git, ["tag", "--", tag, base.commit], git_dir=workspace / ".git")
        mounts = (Mount(source=str(venv), target=VENV, writable=True), *draft.mounts[1:])
        spec = EnvironmentSpec(
            workspace=workspace,
            workdir=WORKDIR,
            network=Network.OPEN,
            mounts=mounts,
            variables=dict(_install_variables()),
        )
        try:
            async with await provider.start(spec) as room:
                await _run_step(room, library.row, f"{python.executable} -m venv {VENV}")
                # Old ones install in ways that the official installer does not have.
                await _run_step(room, library.row, "pip install --upgrade pip")
                left_out = [*_container_only_commands(library.row.setup), *await _install(room, library.row)]
                packages = await _run_step(room, library.row, "pip freeze --all")
                # It holds copies of other people's libraries, some of which are tasks.
                await _run_step(room, library.row, "pip uninstall -y pip")
                await room.get(WORKDIR, after)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        await asyncio.to_thread(_keep_generated, workspace, after, draft.generated)
    made = Commit0Venv(
        folder=str(target),
        interpreter=python,
        skipped_steps=tuple(left_out),
        packages=tuple(packages.decode("utf-8", "replace").splitlines()),
    )
    (target / "installed.json").write_bytes(to_json(made))
    return made


async def _install(environment: Environment, row: Commit0Row) -> list[str]:
    """Take the row's own steps; those that failed and can be done without.

    Some libraries cannot be installed by today's tools any more. Their tests may still run: the workspace is put where
    Python looks for it, and `validate` tells what the reference then passes.
    """
    failed = []
    for step in _install_steps(row.setup):
        try:
            await _run_step(environment, row, step)
        except InfrastructureError:
            if step != row.setup.install:
                raise
            failed.append(step)
            root = PurePosixPath(WORKDIR, row.src_dir).parent
            await _run_step(environment, row, f'echo {root} >"$(python -c "{_PURELIB}")/workspace.pth"')
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


async def _run_step(environment: Environment, row: Commit0Row, command: str) -> bytes:
    done = await environment.exec(["sh", "-c", command], timeout=_STEP_SECONDS)
    if done.exit_code != 0:
        lines = (done.stderr or done.stdout).decode("utf-8", "replace").splitlines()
        said = next((line.strip() for line in reversed(lines) if "rror" in line), "".join(lines[-1:]))
        raise InfrastructureError(
            f"cannot be installed: `{command}` ended with {done.exit_code} ({said[:300]})",
            where=row.instance_id,
            fix="see whether its packages can be had from here, or use --runner docker",
            cause=Cause.ENVIRONMENT_FAILED,
        )
    return done.stdout


def _install_variables() -> Iterator[tuple[str, str]]:
    """The user's own settings of pip and of the way to the network; the room is told nothing else."""
    yield "PATH", _PATH
    for name, value in os.environ.items():
        if name.startswith(_PIP_VARIABLES) or name.lower().endswith("_proxy"):
            yield name, value


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
    return cache_root() / "commit0" / "environments" / f"{library.row.name}-{venv_key(library)[:16]}"
