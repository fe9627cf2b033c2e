"""Small instances in the shapes of the SWE family, with images of their own made from the tests' base image.

Each world is one repository in one image; its instances are about one module each. The repository is made in the same
way on this machine and in the image, with fixed dates, so that its commits have the same ids in both.
"""

import asyncio
import difflib
import os
import shutil
import subprocess
import textwrap
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiodocker import DockerError

from docker_image import IMAGE, need_docker
from proctor.environments.docker_build import build, build_context, build_tag
from proctor.environments.docker_engine import connect, disconnect
from proctor.environments.image_build import ImageBuild
from shared_fixture import one_at_a_time

Files = Mapping[str, str]

# What `make` does with the folders of a repository: one commit each, the last one on a branch that is the future.
_MAKE = """\
set -eu
here=$1; target=$2
export HOME=$target.home GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@localhost GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@localhost
mkdir -p "$target" "$HOME"
cd "$target"
git init --quiet --initial-branch=main
number=0
commit() {
    number=$((number + 1))
    export GIT_AUTHOR_DATE="2024-01-0$number 00:00:00 +0000" GIT_COMMITTER_DATE="2024-01-0$number 00:00:00 +0000"
    git add --all
    git commit --quiet --allow-empty --message "$1"
}
cp -R "$here/past/." .; commit past; git tag v1
cp -R "$here/base/." .; commit base; git tag base
git checkout --quiet -b future
cp -R "$here/future/." .; commit future; git tag v2
git checkout --quiet main
git remote add origin https://example.invalid/repository.git
git update-ref refs/remotes/origin/main future
rm -rf "$HOME"
"""


class Repository:
    """A repository of three commits: past, base, and the future that nobody may see."""

    def __init__(self, folder: Path, *, past: Files, base: Files, future: Files) -> None:
        self.base = dict(past) | dict(base)
        self.future = self.base | dict(future)
        self.folder = folder / "stages"
        for name, files in (("past", past), ("base", base), ("future", future)):
            write(self.folder / name, files)
        (self.folder / "make.sh").write_text(_MAKE)
        clone = folder / "clone"
        subprocess.run(
            ["sh", self.folder / "make.sh", self.folder, clone], check=True, env={"PATH": os.environ["PATH"]}
        )
        self.base_commit = git(clone, "rev-parse", "base")
        self.future_commit = git(clone, "rev-parse", "future")

    def patch(self, changed: Mapping[str, str | None]) -> str:
        """The diff from the base to these files; None takes one away."""
        return "".join(diff(path, self.base.get(path), text) for path, text in changed.items())


def write(folder: Path, files: Files) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def diff(path: str, old: str | None, new: str | None) -> str:
    """A diff of git's for one file."""
    before, after = (textwrap.dedent(text).splitlines(keepends=True) if text else [] for text in (old, new))
    head = f"diff --git a/{path} b/{path}\n"
    if old is None:
        head += "new file mode 100644\n"
    elif new is None:
        head += "deleted file mode 100644\n"
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    return head + "".join(difflib.unified_diff(before, after, *names))


def make_image(
    folder: Path, dockerfile: str, *, repository: Repository | None = None, files: Files | None = None
) -> str:
    """Build an image; its tag. The same content gives the same tag, and is not built again."""
    need_docker()
    context = folder / "context"
    context.mkdir(parents=True)
    (context / "Dockerfile").write_text(dockerfile)
    write(context / "files", files or {})
    if repository is not None:
        shutil.copytree(repository.folder, context / "stages")
    with ThreadPoolExecutor(1) as thread:  # the caller may be in an event loop
        return thread.submit(lambda: asyncio.run(_build(context))).result()


async def _build(context: Path) -> str:
    made = ImageBuild(folder=context)
    data = build_context(made, {})
    tag = build_tag(data, ())
    docker = connect()
    try:
        with one_at_a_time(tag):
            try:
                await docker.images.inspect(tag)
            except DockerError:
                await build(docker, made, data, tag)
    finally:
        await disconnect(docker)
    return tag


def python_image(folder: Path) -> str:
    """Debian's Python with pytest and patch, which the instances' images start from."""
    need_docker()
    context = folder / "context"
    site = Path(pytest.__file__).parent.parent
    folders = [site / name for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")]
    folders += [found for name in ("pytest", "pluggy", "pytest_timeout") for found in site.glob(f"{name}-*.dist-info")]
    for found in folders:
        shutil.copytree(found, context / "site" / found.name, ignore=shutil.ignore_patterns("__pycache__", "RECORD"))
    for name in ("py.py", "pytest_timeout.py"):
        shutil.copy(site / name, context / "site" / name)
    (context / "bin").mkdir()
    if patch := shutil.which("patch"):
        shutil.copy(patch, context / "bin" / "patch")
    (context / "bin" / "pytest").write_text('#!/bin/sh\nexec python3 -m pytest "$@"\n')
    (context / "bin" / "pytest").chmod(0o755)
    (context / "Dockerfile").write_text(
        f"FROM {IMAGE}\n"
        "COPY site /usr/lib/python3/dist-packages\n"
        "COPY bin /usr/local/bin\n"
        "RUN python3 -m compileall -q /usr/lib/python3/dist-packages && ln -s python3 /usr/bin/python"
        " && mkdir -p /opt/miniconda3/bin"
        " && echo 'conda() { :; }' > /opt/miniconda3/bin/activate\n"
    )
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_build(context))).result()
