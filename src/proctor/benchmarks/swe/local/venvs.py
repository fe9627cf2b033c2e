"""Virtual environments and prepared trees in the cache: built once in a room with network, then shared by all rooms.

An environment belongs to a set of pins and an interpreter. A setting belongs to an instance: its environment with the
project installed, and its tree as the official image has it, with the base commit's past and nothing later.
"""

import asyncio
import hashlib
import os
import shlex
import shutil
import sys
import tomllib
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from proctor.benchmarks.swe.environment_steps import run_bash
from proctor.benchmarks.swe.local.interpreters import SweInterpreter
from proctor.benchmarks.swe.local.official_scripts import ACTIVATE, BUILD_DIR, VENV_DIR, ImageSetup
from proctor.benchmarks.swe.local.pins import Pins
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec, Limits, Mount, Network
from proctor.core.errors import InfrastructureError, RetryableError
from proctor.core.files import file_lock
from proctor.core.record import Record
from proctor.core.task import RepositorySource
from proctor.environments import provider
from proctor.environments.visibility import PATH, is_visible
from proctor.workspaces import base_of, check_out
from proctor.workspaces.git import run_git

WORKDIR: Final = "/testbed"
# Another number makes all of it anew.
_FORMAT_VERSION: Final = "1"
_BUILD_SECONDS: Final = 3600.0
_PIP_CACHE: Final = "/pip-cache"
_START_DIR: Final = "/tmp/proctor-start"  # noqa: S108 - inside a room of our own
# How a user's machine reaches its package index.
_PASSED_VARIABLES: Final = ("PIP_", "SSL_CERT_", "REQUESTS_CA_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
_OFFLINE_MESSAGES: Final = (
    "Temporary failure in name resolution",
    "Failed to establish a new connection",
    "Read timed out",
    "Network is unreachable",
    "Connection refused",
    "ProxyError",
)
# What git has of the tree, and what it would take in: what an answer is a diff against.
_EXPORT_SCRIPT: Final = f"""
export GIT_INDEX_FILE=/tmp/proctor-index
mkdir -p .git/info {_START_DIR}
printf '* -export-ignore -export-subst -text -filter -ident -eol\\n' > .git/info/attributes
git add --all .
git checkout-index --all --force --prefix={_START_DIR}/
"""


class LocalSetupSpec(Record):
    """What an instance needs to be set up here."""

    instance_id: str
    url: str
    commit: str
    pins: Pins
    image_setup: ImageSetup
    interpreter: SweInterpreter


class LocalSetup(Record):
    """An instance that is set up: its tree, its environment, and what an answer is a diff against."""

    tree: Path
    venv: Path
    start_tree: Path


def interpreter_mounts(interpreter: SweInterpreter) -> tuple[Mount, ...]:
    """What a room must be shown besides its system for the interpreter to run."""
    prefix = Path(interpreter.prefix).resolve()
    return () if is_visible(prefix) else (Mount(source=str(prefix), target=str(prefix)),)


def hidden_site_packages(interpreter: SweInterpreter) -> tuple[str, ...]:
    """What was installed for others into the Pythons that a room shows: it may well be the project, years later."""
    folders: dict[str, None] = {}
    for prefix in (interpreter.prefix, sys.base_prefix, "/usr", "/usr/local"):
        for form in ("lib/python*/site-packages", "lib/python*/dist-packages", "local/lib/python*/dist-packages"):
            folders |= dict.fromkeys(str(path.resolve()) for path in Path(prefix).glob(form))
    return tuple(folders)


def site_packages_mounts(interpreter: SweInterpreter, venv: Path) -> tuple[Mount, ...]:
    """The environment's packages in the place of the interpreter's own.

    In the official images there is one Python. Programs that start it in a way by which it does not notice that it is
    in a virtual environment, as tox does through a link, must find the same packages.
    """
    place = Path(interpreter.prefix, "lib", f"python{interpreter.version}", "site-packages").resolve()
    if not place.is_dir():
        return ()
    source = venv / "lib" / f"python{interpreter.version}" / "site-packages"
    return (Mount(source=str(source), target=str(place), private=True),)


def venv_variables() -> dict[str, str]:
    """The environment variables of a room that works in the virtual environment."""
    return {"PATH": ":".join((f"{VENV_DIR}/bin", *PATH)), "VIRTUAL_ENV": VENV_DIR}


async def ensure_local_setup(setup_spec: LocalSetupSpec, *, cache: Path) -> LocalSetup:
    """The instance's setting, made now if it is not in the cache.

    Raises:
        InfrastructureError: it cannot be made here; says why, with cause NOT_RUNNABLE_HERE.
        RetryableError: a repository or a package index cannot be reached.
    """
    key = _digest(_environment_key(setup_spec), setup_spec.url, setup_spec.commit, *setup_spec.image_setup.lines)
    home = cache / "swe" / "settings" / key
    async with _build_once(home) as partial:
        if partial is not None:
            rooms = provider("local")
            shared = await _ensure_venv(setup_spec, rooms, cache=cache)
            await asyncio.to_thread(_check_out_and_link, setup_spec, shared, partial, cache)
            await _install_project(setup_spec, rooms, partial, cache=cache)
    return LocalSetup(tree=home / "tree", venv=home / "env", start_tree=home / "start")


async def _ensure_venv(setup_spec: LocalSetupSpec, provider: EnvironmentProvider, *, cache: Path) -> Path:
    home = cache / "swe" / "environments" / _digest(_environment_key(setup_spec))
    async with _build_once(home) as partial:
        if partial is not None:
            (partial / "env").mkdir()
            pins, python = setup_spec.pins, shlex.quote(setup_spec.interpreter.executable)
            install = "python -m pip install --no-deps --requirement /tmp/pins.txt"
            script = [
                f"{python} -m venv {VENV_DIR}",
                ACTIVATE,
                *([f"python -m pip install {shlex.join(pins.tools)}"] if pins.tools else []),
                f"{install} || {install} --no-build-isolation",
            ]
            spec = _build_spec(setup_spec, partial / "env", cache=cache)
            await _run_build(spec, provider, script, {"/tmp/pins.txt": "\n".join(pins.packages)}, what="environment")  # noqa: S108 - inside
    return home / "env"


def _check_out_and_link(setup_spec: LocalSetupSpec, shared: Path, partial: Path, cache: Path) -> None:
    base = base_of(RepositorySource(url=setup_spec.url, commit=setup_spec.commit), cache=cache)
    check_out(base, partial / "checkout")
    # Links: what the project's installation adds is its own, and what it replaces is replaced by new files.
    shutil.copytree(shared, partial / "env", symlinks=True, copy_function=os.link)


async def _install_project(
    setup_spec: LocalSetupSpec, provider: EnvironmentProvider, partial: Path, *, cache: Path
) -> None:
    """Do what the official image does with the repository, and keep what comes of it."""
    checkout = partial / "checkout"
    date = await asyncio.to_thread(
        lambda: (
            run_git(["log", "-1", "--format=%cI", setup_spec.commit], git_dir=checkout / ".git").output.decode().strip()
        )
    )
    identity = "-c user.name=SWE-bench -c user.email=setup@swebench.com"
    requires = _build_requires(checkout)
    script = [
        ACTIVATE,
        f"cd {WORKDIR}",
        *(
            f"{line} || {line} --no-build-isolation" if "pip install" in line else line
            for line in setup_spec.image_setup.lines
        ),
        *([f"python -m pip install --target {BUILD_DIR} {shlex.join(requires)} || true"] if requires else []),
        f"export GIT_AUTHOR_DATE={date} GIT_COMMITTER_DATE={date}",
        f"git {identity} commit --quiet --allow-empty --all --message SWE-bench",
        "rm -rf .git/logs .git/COMMIT_EDITMSG .git/ORIG_HEAD",
    ]
    spec = _build_spec(setup_spec, partial / "env", cache=cache, workspace=checkout)
    await _run_build(
        spec, provider, script, {}, what="installation", keep={WORKDIR: partial / "tree"}, export=partial / "start"
    )
    await asyncio.to_thread(shutil.rmtree, checkout)


def _build_spec(
    setup_spec: LocalSetupSpec, venv: Path, *, cache: Path, workspace: Path | None = None
) -> EnvironmentSpec:
    pip = cache / "swe" / "pip"
    pip.mkdir(parents=True, exist_ok=True)
    carried = {name: value for name, value in os.environ.items() if name.upper().startswith(_PASSED_VARIABLES)}
    return EnvironmentSpec(
        workspace=workspace,
        workdir=WORKDIR,
        network=Network.OPEN,
        mounts=(
            *interpreter_mounts(setup_spec.interpreter),
            Mount(source=str(venv), target=VENV_DIR, writable=True),
            Mount(source=str(pip), target=_PIP_CACHE, writable=True),
            *_wheel_mounts(),
        ),
        variables={**venv_variables(), **carried, "PIP_CACHE_DIR": _PIP_CACHE, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        limits=Limits(),
        labels={"task": setup_spec.instance_id},
    )


def _wheel_mounts() -> tuple[Mount, ...]:
    """Folders of this machine in which pip is told to look for packages."""
    folders = [Path(word) for word in os.environ.get("PIP_FIND_LINKS", "").split()]
    return tuple(
        Mount(source=str(folder), target=str(folder))
        for folder in folders
        if folder.is_absolute() and folder.is_dir() and not is_visible(folder.resolve())
    )


async def _run_build(
    spec: EnvironmentSpec,
    provider: EnvironmentProvider,
    script: list[str],
    files: Mapping[str, str],
    *,
    what: str,
    keep: Mapping[str, Path] | None = None,
    export: Path | None = None,
) -> None:
    async with await provider.start(spec) as room:
        for path, text in files.items():
            await room.put(text.encode(), path)
        done = await run_bash(room, "\n".join(["set -e", *script]), seconds=_BUILD_SECONDS)
        said = done.stdout.decode(errors="replace")
        if done.exit_code:
            raise _build_error(said, what)
        for path, target in (keep or {}).items():
            await room.get(path, target)
        if export is not None:
            exported = await run_bash(room, f"set -e\ncd {WORKDIR}\n{_EXPORT_SCRIPT}")
            if exported.exit_code:
                raise InfrastructureError(
                    f"git cannot read the tree: {exported.stdout.decode(errors='replace')[-300:]}"
                )
            await room.get(_START_DIR, export)


def _build_error(output: str, what: str) -> InfrastructureError:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    told = " ".join((errors or lines or ["it said nothing"])[-1].split())[:300]
    if any(sign in output for sign in _OFFLINE_MESSAGES):
        return RetryableError(f"the packages of its {what} cannot be fetched: {told}", fix="check the network")
    return InfrastructureError(
        f"its {what} cannot be made on this machine: {told}", cause=Cause.NOT_RUNNABLE_HERE, details=lines[-5:]
    )


def _build_requires(tree: Path) -> tuple[str, ...]:
    """What the project's build needs, by its own word."""
    try:
        document = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    requires = document.get("build-system", {}).get("requires", [])
    return tuple(requirement for requirement in requires if isinstance(requirement, str))


def _environment_key(setup_spec: LocalSetupSpec) -> str:
    pins, interpreter = setup_spec.pins, setup_spec.interpreter
    return _digest(_FORMAT_VERSION, interpreter.executable, interpreter.version, *pins.tools, "--", *pins.packages)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:24]


def _is_built(target: Path) -> bool:
    return target.is_dir()


_locks: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, asyncio.Lock]]" = weakref.WeakKeyDictionary()


@asynccontextmanager
async def _build_once(target: Path) -> AsyncIterator[Path | None]:
    """A folder to fill, which is at `home` when it has been filled without an error; None when it is there already.

    Tasks of this process wait for each other here, other processes at the file: no thread waits for another one.
    """
    if _is_built(target):
        yield None
        return
    locks = _locks.setdefault(asyncio.get_running_loop(), {})
    async with locks.setdefault(target, asyncio.Lock()):
        target.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            lock = file_lock(
                target.with_name(f"{target.name}.lock"), what=f"{target.name}", wait_seconds=_BUILD_SECONDS
            )
            await asyncio.to_thread(stack.enter_context, lock)
            if _is_built(target):
                yield None
                return
            partial = target.with_name(f".{target.name}.partial")
            await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
            partial.mkdir()
            try:
                yield partial
                partial.rename(target)
            finally:
                await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
