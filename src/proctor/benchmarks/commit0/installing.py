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

from proctor.benchmarks.commit0.interpreters import Interpreter, find_python
from proctor.benchmarks.commit0.library import Library
from proctor.benchmarks.commit0.rows import Row, Setup
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Mount, Network
from proctor.core.errors import InfrastructureError, RetryableError
from proctor.core.files import locked
from proctor.core.places import cache_root
from proctor.core.record import Record, read_record, to_json
from proctor.core.task import DirectorySource
from proctor.environments.hiding import is_visible
from proctor.results.cache import cache_key
from proctor.workspaces import base_of, check_out
from proctor.workspaces.git import run_git
from proctor.workspaces.trees import file_paths

WORKDIR: Final = "/testbed"
VENV: Final = "/venv"
_RECIPE: Final = "1"  # another recipe makes other environments
_STEP_SECONDS: Final = 1800.0
_PATH: Final = f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What changes the machine itself, which is not ours to change.
_FOR_CONTAINERS: Final = (
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
_FOR_PIP: Final = ("PIP_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_LITTER: Final = frozenset({".git", ".pytest_cache", ".venv", "__pycache__", "build", "dist"})


class Installed(Record):
    """An environment that was made.

    Attributes:
        left_out: steps that only a container can take, and an installation that failed and could be done without.
        packages: what is installed, as pip says it.
    """

    folder: str
    python: Interpreter
    left_out: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What a room must show."""
        shown = [Mount(source=f"{self.folder}/venv", target=VENV)]
        if not is_visible(Path(self.python.prefix)):
            shown.append(Mount(source=self.python.prefix, target=self.python.prefix))
        return tuple(shown)

    @property
    def generated(self) -> Path:
        """Files that installing has made in the repository and that belong to it: a version, compiled data."""
        return Path(self.folder, "generated")


def environment_key(library: Library) -> str:
    """Names the environment of a library."""
    row = library.row
    return cache_key(_RECIPE, to_json(row.setup).decode(), row.base_commit, row.reference_commit)


def known_environment(library: Library) -> Installed | None:
    """The environment, where it has been made."""
    record = _home(library) / "installed.json"
    return read_record(record, Installed) if record.is_file() else None


async def environment_of(library: Library, provider: EnvironmentProvider) -> Installed:
    """The environment, made now if need be.

    Raises:
        InfrastructureError: there is no such Python here, or a step fails.
    """
    known = known_environment(library)
    if known is not None:
        return known
    python = await asyncio.to_thread(find_python, library.row.setup.python)
    home = _home(library)
    home.parent.mkdir(parents=True, exist_ok=True)
    with await _alone(home, library.row.name):
        return known_environment(library) or await _make(library, provider, python, home)


async def _alone(home: Path, name: str) -> ExitStack:
    """The lock on an environment. Another task, or another command, may be making it: nobody else waits for that."""
    stack = ExitStack()
    while True:
        try:
            lock = home.with_name(f".{home.name}.lock")
            stack.enter_context(locked(lock, what=f"the environment of {name}", wait_seconds=0))
        except RetryableError:
            await asyncio.sleep(1)
        else:
            return stack


async def _make(library: Library, provider: EnvironmentProvider, python: Interpreter, home: Path) -> Installed:
    shutil.rmtree(home, ignore_errors=True)
    venv = home / "venv"
    venv.mkdir(parents=True)
    draft = Installed(folder=str(home), python=python, left_out=(), packages=())
    # The official images install the reference: set-up programs may import what they set up.
    tree = await asyncio.to_thread(lambda: library.reference() or library.base())
    with tempfile.TemporaryDirectory(prefix="proctor-install-") as scratch:
        workspace, after = Path(scratch) / "workspace", Path(scratch) / "after"
        base = await asyncio.to_thread(base_of, DirectorySource(path=str(tree)))
        await asyncio.to_thread(check_out, base, workspace)
        tag = await asyncio.to_thread(library.tag)
        if tag is not None:
            await asyncio.to_thread(run_git, ["tag", "--", tag, base.commit], git_dir=workspace / ".git")
        mounts = (Mount(source=str(venv), target=VENV, writable=True), *draft.mounts[1:])
        spec = EnvironmentSpec(
            workspace=workspace, workdir=WORKDIR, network=Network.OPEN, mounts=mounts, variables=dict(_variables())
        )
        try:
            async with await provider.start(spec) as room:
                await _step(room, library.row, f"{python.executable} -m venv {VENV}")
                # Old ones install in ways that the official installer does not have.
                await _step(room, library.row, "pip install --upgrade pip")
                left_out = [*_for_containers(library.row.setup), *await _install(room, library.row)]
                packages = await _step(room, library.row, "pip freeze --all")
                # It holds copies of other people's libraries, some of which are tasks.
                await _step(room, library.row, "pip uninstall -y pip")
                await room.get(WORKDIR, after)
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        await asyncio.to_thread(_keep_generated, workspace, after, draft.generated)
    made = Installed(
        folder=str(home),
        python=python,
        left_out=tuple(left_out),
        packages=tuple(packages.decode("utf-8", "replace").splitlines()),
    )
    (home / "installed.json").write_bytes(to_json(made))
    return made


async def _install(room: Environment, row: Row) -> list[str]:
    """Take the row's own steps; those that failed and can be done without.

    Some libraries cannot be installed by today's tools any more. Their tests may still run: the workspace is put where
    Python looks for it, and `validate` tells what the reference then passes.
    """
    failed = []
    for step in _steps(row.setup):
        try:
            await _step(room, row, step)
        except InfrastructureError:
            if step != row.setup.install:
                raise
            failed.append(step)
            root = PurePosixPath(WORKDIR, row.src_dir).parent
            await _step(room, row, f'echo {root} >"$(python -c "{_PURELIB}")/workspace.pth"')
    return failed


def _steps(setup: Setup) -> Iterator[str]:
    skipped = set(_for_containers(setup))
    yield from (command for command in setup.pre_install or () if command not in skipped)
    yield from (f"pip install -r {file}" for file in setup.requirement_files())
    if setup.pip_packages:
        yield "pip install " + " ".join(f"'{package}'" for package in setup.pip_packages)
    if setup.install:
        yield setup.install
    yield _TEST_TOOLS


def _for_containers(setup: Setup) -> Iterator[str]:
    yield from (command for command in setup.pre_install or () if any(word in command for word in _FOR_CONTAINERS))


async def _step(room: Environment, row: Row, command: str) -> bytes:
    done = await room.exec(["sh", "-c", command], timeout=_STEP_SECONDS)
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


def _variables() -> Iterator[tuple[str, str]]:
    """The user's own settings of pip and of the way to the network; the room is told nothing else."""
    yield "PATH", _PATH
    for name, value in os.environ.items():
        if name.startswith(_FOR_PIP) or name.lower().endswith("_proxy"):
            yield name, value


def _keep_generated(before: Path, after: Path, kept: Path) -> None:
    old = set(file_paths(before))
    kept.mkdir()
    for path in file_paths(after):
        name = Path(os.fsdecode(path))
        if path in old or _LITTER & set(name.parts) or any(part.endswith(".egg-info") for part in name.parts):
            continue
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(after / name, kept / name, follow_symlinks=False)


def _home(library: Library) -> Path:
    return cache_root() / "commit0" / "environments" / f"{library.row.name}-{environment_key(library)[:16]}"
