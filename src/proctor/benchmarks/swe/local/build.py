"""Prepared instances in the cache: a virtual environment with the official pins, and the tree of the official image.

The virtual environment belongs to a set of pins and an interpreter, and is shared. An instance has a copy of it with
the project installed, and its tree with the base commit's history and nothing later.
"""

import asyncio
import os
import shlex
import shutil
from pathlib import Path
from typing import Final

from proctor.benchmarks.python_envs import VENV_DIR, Interpreter, build_once, cache_dir, open_build
from proctor.benchmarks.swe.local.official_scripts import BUILD_DIR, ImageSetup
from proctor.benchmarks.swe.local.pins import Pins
from proctor.core.environment import Environment, EnvironmentProvider, Mount
from proctor.core.errors import InfrastructureError
from proctor.core.files import cache_root
from proctor.core.record import Record
from proctor.core.task import RepositorySource
from proctor.core.user_files import parse_toml, read_limited
from proctor.environments import provider as find_provider
from proctor.results.cache import cache_key
from proctor.workspaces import base_of, check_out
from proctor.workspaces.git import run_git

WORKDIR: Final = "/testbed"
# Another number makes all of it anew.
_FORMAT_VERSION: Final = "2"
_KEY_LENGTH: Final = 24
_PINS_FILE: Final = "/tmp/pins.txt"  # noqa: S108 - inside an environment of our own
_START_DIR: Final = "/tmp/proctor-start"  # noqa: S108 - as above
# What git has of the tree, and what it would add: the base of a submission's diff.
_EXPORT_SCRIPT: Final = f"""
cd {WORKDIR}
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
    interpreter: Interpreter


class LocalSetup(Record):
    """An instance that is set up: its tree, its virtual environment, and the base tree of submissions' diffs."""

    tree: Path
    venv: Path
    start_tree: Path


def site_packages_mounts(interpreter: Interpreter, venv: Path) -> tuple[Mount, ...]:
    """The virtual environment's packages in the place of the interpreter's own.

    In the official images there is one Python. Programs that start it in a way by which it does not notice that it is
    in a virtual environment, as tox does through a link, must find the same packages.
    """
    target = Path(interpreter.prefix, "lib", f"python{interpreter.version}", "site-packages").resolve()
    if not target.is_dir():
        return ()
    source = venv / "lib" / f"python{interpreter.version}" / "site-packages"
    return (Mount(source=str(source), target=str(target), private=True),)


async def ensure_local_setup(setup_spec: LocalSetupSpec) -> LocalSetup:
    """The prepared instance, built now if it is not in the cache.

    Raises:
        InfrastructureError: it cannot be built here, with cause NOT_RUNNABLE_HERE.
        RetryableError: a repository or a package index cannot be reached.
    """
    parts = (_venv_key(setup_spec), setup_spec.url, setup_spec.commit, *setup_spec.image_setup.lines)
    target = cache_dir("swe", "instances", cache_key(*parts)[:_KEY_LENGTH])
    async with build_once(target) as partial:
        if partial is not None:
            local = find_provider("local")
            shared = await _ensure_venv(setup_spec, local)
            await asyncio.to_thread(_check_out_and_link, setup_spec, shared, partial)
            await _install_project(setup_spec, local, partial, name=target.name)
    return LocalSetup(tree=target / "tree", venv=target / "venv", start_tree=target / "start")


async def _ensure_venv(setup_spec: LocalSetupSpec, provider: EnvironmentProvider) -> Path:
    target = cache_dir("swe", "venvs", _venv_key(setup_spec))
    async with build_once(target) as partial:
        if partial is not None:
            (partial / "venv").mkdir()
            pins, python = setup_spec.pins, setup_spec.interpreter
            install = f"python -m pip install --no-deps --requirement {_PINS_FILE}"
            async with open_build(
                provider,
                python,
                partial / "venv",
                name=target.name,
                task_id=setup_spec.instance_id,
                workdir=WORKDIR,
            ) as build:
                await build.run(f"{shlex.quote(python.executable)} -m venv {VENV_DIR}")
                if pins.tools:
                    await build.run(f"python -m pip install {shlex.join(pins.tools)}")
                await build.environment.put("\n".join(pins.packages).encode(), _PINS_FILE)
                await build.run(f"{install} || {install} --no-build-isolation")
    return target / "venv"


def _check_out_and_link(setup_spec: LocalSetupSpec, shared: Path, partial: Path) -> None:
    base = base_of(RepositorySource(url=setup_spec.url, commit=setup_spec.commit), cache=cache_root().absolute())
    check_out(base, partial / "checkout")
    # Links: what the project's installation adds is its own, and what it replaces is replaced by new files.
    shutil.copytree(shared, partial / "venv", symlinks=True, copy_function=os.link)


async def _install_project(
    setup_spec: LocalSetupSpec, provider: EnvironmentProvider, partial: Path, *, name: str
) -> None:
    """Do what the official image does with the repository, and keep the result."""
    checkout = partial / "checkout"
    date = await asyncio.to_thread(_commit_date, checkout, setup_spec.commit)
    identity = "-c user.name=SWE-bench -c user.email=setup@swebench.com"
    requires = _build_requires(checkout)
    script = [
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
    async with open_build(
        provider,
        setup_spec.interpreter,
        partial / "venv",
        name=name,
        task_id=setup_spec.instance_id,
        workdir=WORKDIR,
        workspace=checkout,
    ) as build:
        await build.run("\n".join(script))
        await build.environment.get(WORKDIR, partial / "tree")
        await _export_start_tree(build.environment, partial / "start")
    await asyncio.to_thread(shutil.rmtree, checkout)


async def _export_start_tree(environment: Environment, target: Path) -> None:
    done = await environment.exec(["/bin/bash", "-e", "-c", _EXPORT_SCRIPT])
    if done.exit_code:
        raise InfrastructureError(f"git cannot read the tree: {done.stderr.decode(errors='replace')[-300:]}")
    await environment.get(_START_DIR, target)


def _commit_date(checkout: Path, commit: str) -> str:
    return run_git(["log", "-1", "--format=%cI", commit], git_dir=checkout / ".git").output.decode().strip()


def _build_requires(tree: Path) -> tuple[str, ...]:
    """What the project's build needs, by its own declaration."""
    try:
        document = parse_toml(read_limited(tree / "pyproject.toml").decode("utf-8"))
    except (OSError, ValueError):
        return ()
    requires = document.get("build-system", {}).get("requires", [])
    return tuple(requirement for requirement in requires if isinstance(requirement, str))


def _venv_key(setup_spec: LocalSetupSpec) -> str:
    pins, interpreter = setup_spec.pins, setup_spec.interpreter
    parts = (_FORMAT_VERSION, interpreter.executable, interpreter.version, *pins.tools, "--", *pins.packages)
    return cache_key(*parts)[:_KEY_LENGTH]
