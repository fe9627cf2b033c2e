"""What the tests of an instance need installed: built once in an environment with network, mounted in those without.

An environment's folder in the suite says how (`SuiteEnvironmentFile`). The result is kept in the cache below
``suite_environments/<key>``: ``deps`` is what environments show at ``/deps``, ``log.txt`` what the build printed, and
``built`` is there once it is complete. The modification time of ``deps`` is always the same, so that the digest of an
environment does not depend on when it was built.
"""

import asyncio
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.python_envs.venvs import (
    BUILD_SECONDS,
    build_error,
    build_variables,
    cache_dir,
    lock_build,
    wheel_mounts,
)
from proctor.benchmarks.suites.documents import decode_document, read_bytes
from proctor.benchmarks.suites.format import DEPS_DIR, ENVIRONMENT_FILE, SuiteEnvironmentFile
from proctor.benchmarks.suites.runtimes import find_runtimes, search_path
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec, Limits, Mount, Network
from proctor.core.errors import RetryableError
from proctor.core.files import cache_root
from proctor.core.record import Record
from proctor.core.trees import file_paths
from proctor.results.cache import cache_key

FILES_DIR: Final = "/environment"
IMAGE_DIR: Final = "image"  # in an environment's folder: the Dockerfile of its image, and what that copies
UV_VERSION: Final = "0.13.8"
_TOOLS_DIR: Final = "/deps-tools"
_CACHES_DIR: Final = "/deps-caches"
_BUILD_LIMITS: Final = Limits(memory_mb=8192, processes=4096, disk_mb=40960)
_KEY_LENGTH: Final = 24
# What package managers keep between builds.
_CACHE_VARIABLES: Final = {
    "PIP_CACHE_DIR": f"{_CACHES_DIR}/pip",
    "UV_CACHE_DIR": f"{_CACHES_DIR}/uv",
    "npm_config_cache": f"{_CACHES_DIR}/npm",
    "YARN_CACHE_FOLDER": f"{_CACHES_DIR}/yarn",
}
_PASSED_VARIABLES: Final = ("UV_", "npm_config_", "NODE_EXTRA_", "GOPROXY", "GONOSUM", "GOFLAGS", "CARGO_HTTP_")


class InstalledEnvironment(Record):
    """An environment of a suite for one kind of environments, built or not.

    Attributes:
        folder: in the suite, with `environment.json`.
        cache: its folder in the cache.
        in_image: languages are the container image's own.
    """

    folder: Path
    file: SuiteEnvironmentFile
    cache: Path
    in_image: bool

    @property
    def deps(self) -> Path:
        """What environments show at ``/deps``."""
        return self.cache / "deps"

    @property
    def log(self) -> Path:
        """What the build printed."""
        return self.cache / "log.txt"

    def is_built(self) -> bool:
        """Whether it is complete."""
        return (self.cache / "built").is_file()

    def spec(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        """An environment's description, with what is installed in it."""
        shown = [Mount(source=str(self.deps), target=DEPS_DIR, private=not self.in_image)]
        shown += [
            Mount(source=str(self.deps / name), target=target)
            for name, target in sorted(self.file.shown.items())
            if (self.deps / name).is_dir()
        ]
        return self._with_runtimes(spec, *shown)

    @property
    def _image_folder(self) -> Path | None:
        """The folder with the Dockerfile of its image, where it has one."""
        folder = self.folder.resolve() / IMAGE_DIR
        return folder if (folder / "Dockerfile").is_file() else None

    def _with_runtimes(self, spec: EnvironmentSpec, *mounts: Mount) -> EnvironmentSpec:
        variables = {**self.file.variables}
        folders = [folder for folder in variables.pop("PATH", "").split(":") if folder]
        hidden: tuple[str, ...] = ()
        if self.in_image:
            # An image has a PATH of its own, which is kept: a login shell is the way to add to it.
            variables["PYTHON"] = f"python{self.file.runtimes.get('python', '3')}"
            variables |= {name: value for name, value in _WRITTEN_VARIABLES.items() if name in variables}
            if folders:
                variables["PATH"] = ":".join((*folders, _IMAGE_PATH))
        else:
            runtimes = find_runtimes(self.file.runtimes)
            mounts, hidden = (*runtimes.mounts, *mounts), runtimes.hidden
            variables |= dict(runtimes.variables)
            variables["PATH"] = search_path(*folders, *runtimes.folders)
        return msgspec.structs.replace(
            spec,
            mounts=(*spec.mounts, *mounts),
            hidden=(*spec.hidden, *hidden),
            variables={**variables, **spec.variables},
            image=spec.image or self.file.image,
            build=self._image_folder if self.in_image else None,
        )

    async def build(self, provider: EnvironmentProvider, tree: Path, *, task_id: str) -> None:
        """Install it, where that has not been done; `tree` is the repository of an instance that uses it.

        Raises:
            RetryableError: a package index cannot be reached.
            InfrastructureError: installing fails, with cause NOT_RUNNABLE_HERE; says where the log is.
        """
        if self.is_built():
            return
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        with await lock_build(self.cache):
            if self.is_built():
                return
            partial = self.cache / "partial"
            await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
            partial.mkdir(parents=True)
            try:
                await self._install(provider, tree, partial, task_id)
                await asyncio.to_thread(shutil.rmtree, self.deps, ignore_errors=True)
                partial.rename(self.deps)
            finally:
                await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
            _set_fixed_time(self.deps)
            (self.cache / "built").touch()

    async def _install(self, provider: EnvironmentProvider, tree: Path, partial: Path, task_id: str) -> None:
        tools = []
        if "uv " in self.file.install:
            folder = await asyncio.to_thread(fetched_package, "uv", UV_VERSION)
            tools = [Mount(source=str(folder), target=_TOOLS_DIR)]
        caches = cache_dir("caches")
        caches.mkdir(parents=True, exist_ok=True)
        spec = self._with_runtimes(
            EnvironmentSpec(
                workspace=tree,
                network=Network.OPEN,
                limits=_BUILD_LIMITS,
                variables={**build_variables(*_PASSED_VARIABLES), **_CACHE_VARIABLES, "UV_LINK_MODE": "copy"},
                labels={"task": task_id},
            ),
            Mount(source=str(partial), target=DEPS_DIR, writable=True),
            Mount(source=str(self.folder.resolve()), target=FILES_DIR),
            *tools,
            Mount(source=str(caches), target=_CACHES_DIR, writable=True),
            *wheel_mounts(),
        )
        # pip of the interpreter makes virtual environments: it is hidden from tests alone.
        spec = msgspec.structs.replace(spec, hidden=())
        script = f'export PATH="$PATH:{_TOOLS_DIR}/bin"\nset -e\n{self.file.install}\n'
        async with await provider.start(spec) as environment:
            done = await environment.exec(["/bin/bash", "-c", script], timeout=BUILD_SECONDS)
        output = done.stdout + done.stderr
        self.log.write_bytes(output + b"[exit code %d after %.1f s]\n" % (done.exit_code, done.seconds))
        if done.exit_code:
            raise build_error("what it needs", self.file.install, output.decode(errors="replace"), self.log)


_IMAGE_PATH: Final = (
    "/usr/local/sbin:/usr/local/bin:/usr/local/go/bin:/usr/local/cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)
# Containers show what is installed read-only: what programs write beside it goes elsewhere.
_WRITTEN_VARIABLES: Final = {
    "GOCACHE": "/tmp/go-build",  # noqa: S108 - inside an environment
    "CARGO_TARGET_DIR": "/tmp/cargo-target",  # noqa: S108 - likewise
}


def installed_environment(
    folder: Path, provider_name: str, *, in_image: bool, image: str | None
) -> InstalledEnvironment:
    """The environment that a folder of a suite describes, for environments of this provider.

    Raises:
        InvalidDocument: its file is broken.
        InfrastructureError: this machine does not have a language that it needs.
    """
    path = folder / ENVIRONMENT_FILE
    file = decode_document(read_bytes(path), SuiteEnvironmentFile, file=str(path))
    identity = f"image {image or file.image}" if in_image else find_runtimes(file.runtimes).identity
    key = cache_key("1", provider_name, identity, folder_digest(folder))[:_KEY_LENGTH]
    cache = cache_root().absolute() / "suite_environments" / key
    if not (cache / "deps").is_dir():
        (cache / "deps").mkdir(parents=True, exist_ok=True)
        _set_fixed_time(cache / "deps")
    return InstalledEnvironment(folder=folder, file=file, cache=cache, in_image=in_image)


def folder_digest(folder: Path) -> str:
    """Identifies the files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(file_paths(folder)):
        data = (folder / os.fsdecode(path)).read_bytes()
        digest.update(b"%s\0%d\0%s" % (path, len(data), data))
    return digest.hexdigest()


def _set_fixed_time(folder: Path) -> None:
    os.utime(folder, (0, 0))


@functools.cache
def fetched_package(name: str, version: str) -> Path:
    """A folder with a program or a library that is published as a Python package, such as uv; fetched once.

    Raises:
        RetryableError: it cannot be fetched.
    """
    target = cache_dir("tools", f"{name}-{version}")
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", f"{folder}/{name}"]
            command += ["--only-binary", ":all:", f"{name}=={version}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
            if done.returncode:
                raise RetryableError(
                    f"{name} cannot be installed: {done.stderr.strip()[-300:]}",
                    fix="check the network, or PIP_INDEX_URL",
                )
            if not target.is_dir():
                Path(folder, name).rename(target)
    return target
