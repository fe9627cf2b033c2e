"""Instances in containers of their official images."""

import asyncio
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proctor.benchmarks.swe.environment_steps import run_required
from proctor.benchmarks.swe.instance_setup import StartState
from proctor.benchmarks.swe.rows import SweRow
from proctor.core.environment import EnvironmentSpec, Limits, Network
from proctor.core.task import DirectorySource
from proctor.environments import provider
from proctor.workspaces import BaseTree, base_of

_START_DIR: Final = "/tmp/proctor-start"  # noqa: S108 - inside an environment of our own
# Takes the repository's future out of an image: remotes, other branches, tags that are not of the past, what nothing
# names any more. Tags of the past stay, since version tools read them (SWE-bench issue 465, SWE-bench Pro issue 93).
SCRUB_SCRIPT: Final = r"""
git config --global --add safe.directory '*'
git checkout --quiet --detach HEAD
for remote in $(git remote); do git remote remove "$remote"; done
git for-each-ref --format='%(refname)' | grep -v '^refs/tags/' | while read -r ref; do git update-ref -d "$ref"; done
git tag --merged HEAD > /tmp/proctor-kept-tags
git tag | grep -vxF -f /tmp/proctor-kept-tags | while read -r tag; do git tag -d "$tag" > /dev/null; done
rm -rf /tmp/proctor-kept-tags .git/logs .git/FETCH_HEAD .git/ORIG_HEAD .git/MERGE_HEAD .git/lost-found
git checkout --quiet -B main
rm -rf .git/logs
git reflog expire --expire=now --expire-unreachable=now --all
git -c gc.cruftPacks=false gc --quiet --prune=now
test -z "$(git rev-list --all --not HEAD)"
"""
# What git has of the workdir, and what it would take in: exactly what a diff is made against. No filter or attribute
# of the repository has a say.
_EXPORT_SCRIPT: Final = f"""
git config --global --add safe.directory '*'
mkdir -p .git/info
printf '* -export-ignore -export-subst -text -filter -ident -eol\\n' > .git/info/attributes
export GIT_INDEX_FILE=/tmp/proctor-index
rm -rf {_START_DIR} $GIT_INDEX_FILE
git add --all .
mkdir -p {_START_DIR}
git checkout-index --all --force --prefix={_START_DIR}/
"""
# Directories of the image that git ignores: installed packages, what was built. They can be of any size.
_IGNORED: Final = "git ls-files --others --ignored --exclude-standard --directory -z"
_MAX_IGNORED: Final = 2000
_SAFE_NAME: Final = re.compile(r"[\w./@+-]+/")


@dataclass(frozen=True, slots=True)
class _StartingTree:
    """What an agent started from: our copy, and what git ignored beside it."""

    base: BaseTree
    ignored: tuple[str, ...]


_starting_trees: dict[str, _StartingTree] = {}


class DockerInstanceSetup:
    """Implements `InstanceSetup` for `docker`."""

    provider_name = "docker"

    def __init__(self, row: SweRow, start_state: StartState) -> None:
        self.workdir = start_state.workdir
        self._row = row
        self._start = start_state

    def missing_requirement(self, gpus: int = 0) -> str | None:
        """A GPU; no other is known before the image is pulled."""
        needs = "a GPU" if self._start.gpus == 1 else f"{self._start.gpus} GPUs"
        return f"it needs {needs}, and environments have {gpus or 'none'}" if self._start.gpus > gpus else None

    def deviations(self) -> tuple[str, ...]:
        """It is the official image."""
        return ()

    async def agent_spec(self, folder: Path) -> EnvironmentSpec:
        """An image of our own on top of the official one."""
        context = folder / "image"
        await asyncio.to_thread(_write_context, context, self._row.image, self._start)
        return EnvironmentSpec(
            build=context,
            workdir=self.workdir,
            network=Network.MODEL,
            variables=self._start.variables,
            limits=Limits(gpus=self._start.gpus),
        )

    async def base(self, environment_digest: str) -> BaseTree:
        """What git has in a fresh environment of the image that the agent's environment was made from."""
        return (await self._starting_tree(environment_digest)).base

    async def ignored_directories(self, environment_digest: str) -> tuple[str, ...]:
        """What git ignored there."""
        return (await self._starting_tree(environment_digest)).ignored

    async def _starting_tree(self, environment_digest: str) -> _StartingTree:
        if environment_digest not in _starting_trees:
            _starting_trees[environment_digest] = await _read_starting_tree(
                environment_digest.removeprefix("docker:"), self.workdir
            )
        return _starting_trees[environment_digest]

    def grading_spec(self) -> EnvironmentSpec:
        """The official image as it is. The official graders give it a network, and some install lines need one."""
        return EnvironmentSpec(
            image=self._row.image,
            workdir=self.workdir,
            network=Network.OPEN,
            variables=self._start.variables,
            limits=Limits(output_bytes=100_000_000, gpus=self._start.gpus),
        )

    async def prepare_spec(self, spec: EnvironmentSpec, folder: Path) -> EnvironmentSpec:
        """The image has it all."""
        del folder
        return spec

    def adapt_script(self, official_script: str) -> str:
        """The script as it is."""
        return official_script


def _write_context(context: Path, image: str, start_state: StartState) -> None:
    shutil.rmtree(context, ignore_errors=True)
    (context / "files").mkdir(parents=True)
    for name, data in start_state.files.items():
        (context / "files" / name).write_bytes(data)
    lines = ["set -eu", "FILES=/tmp/proctor-files", f"cd {start_state.workdir}", start_state.script]
    lines += [SCRUB_SCRIPT] if start_state.keeps_history else []
    (context / "files" / "start.sh").write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
    (context / "Dockerfile").write_text(
        f"FROM {image}\n"
        "USER root\n"
        "COPY files /tmp/proctor-files\n"
        "RUN /bin/bash /tmp/proctor-files/start.sh && rm -rf /tmp/proctor-files\n"
    )


async def _read_starting_tree(image: str, workdir: str) -> _StartingTree:
    docker = provider("docker")
    try:
        with tempfile.TemporaryDirectory(prefix="proctor-start-") as folder:
            async with await docker.start(EnvironmentSpec(image=image, workdir=workdir)) as environment:
                await run_required(environment, f"cd {workdir}\n{_EXPORT_SCRIPT}", "reading what the agent starts from")
                listed = await environment.exec(["/bin/bash", "-c", _IGNORED])
                tree = Path(folder) / "tree"
                await environment.get(_START_DIR, tree)
            base = await asyncio.to_thread(base_of, DirectorySource(path=str(tree)))
    finally:
        await docker.close()
    names = listed.stdout.decode("utf-8", "surrogateescape").split("\0")
    ignored = [name.removesuffix("/") for name in names if _SAFE_NAME.fullmatch(name)]
    return _StartingTree(base, tuple(ignored[:_MAX_IGNORED]))
