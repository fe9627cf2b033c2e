"""The agent that knows the answer: what it hands in tells whether a task can be solved at all."""

import asyncio
import json
import posixpath
import tempfile
import time
from pathlib import Path
from typing import Final

from proctor.agents.outcomes import not_started_outcome, write_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest, ProgressCallback
from proctor.core.causes import Cause
from proctor.core.environment import Environment, ExecResult
from proctor.core.errors import InvalidData
from proctor.core.formatting import truncate_line
from proctor.core.result import AgentMetrics
from proctor.core.submission import PatchKind
from proctor.core.task import Oracle

# Neither script leaves a copy of the answer in the room. The instruction of both is their standard input.
_APPLY: Final = """
patch=$(mktemp) && trap 'rm -f "$patch"' EXIT && cat >"$patch" || exit 1
if command -v git >/dev/null 2>&1; then
  GIT_CEILING_DIRECTORIES=$(dirname "$PWD") git apply --whitespace=nowarn "$patch"
elif command -v patch >/dev/null 2>&1; then
  patch -p1 --no-backup-if-mismatch <"$patch"
else
  echo "there is neither git nor patch in the room" >&2
  exit 1
fi
"""
_RUN: Final = """
script=$(mktemp) && trap 'rm -f "$script"' EXIT && cat >"$script" || exit 1
"$(command -v bash || command -v sh)" "$script" </dev/null
"""


class OracleAgent(Agent):
    """Applies the task's gold patch, or runs its solution script.

    Args:
        setup: `gold` is the answer, different for every task; `apply_patch` is needed for patch sets.
    """

    name = "oracle"
    needs_sandbox = False
    needs_model = False
    needs_oracle = True

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Put the answer in its place."""
        gold = self._setup.oracle
        if gold is None:
            return write_outcome(request, not_started_outcome(Cause.NO_SUBMISSION, "the task has no reference answer"))
        started = time.monotonic()
        match gold.patch_kind:
            case PatchKind.PATCH_SET:
                on_progress("applying the reference patch set")
                cause, detail = await self._apply_patch_set(gold, environment)
            case PatchKind.UNIFIED_DIFF:
                on_progress("applying the reference patch")
                done = await environment.exec(
                    ["sh", "-c", _APPLY],
                    stdin=gold.text.encode("utf-8", "surrogateescape"),
                    timeout=request.wall_seconds,
                )
                cause, detail = _classify_result(done, "the reference patch")
            case None:
                on_progress("running the reference solution")
                done = await environment.exec(
                    ["sh", "-c", _RUN], stdin=gold.text.encode("utf-8", "surrogateescape"), timeout=request.wall_seconds
                )
                cause, detail = _classify_result(done, "the reference solution")
        seconds = time.monotonic() - started
        return write_outcome(
            request, AgentOutcome(cause=cause, detail=detail, seconds=seconds, metrics=AgentMetrics(agents=0))
        )

    async def _apply_patch_set(self, oracle: Oracle, environment: Environment) -> tuple[Cause | None, str]:
        """Patch copies of the files that are named, and put them back: no room has a program for this."""
        apply = self._setup.apply_patch
        if apply is None:
            return Cause.NOT_RUNNABLE_HERE, "nothing was given that applies a patch set"
        paths = _patched_paths(oracle.text)
        with tempfile.TemporaryDirectory(prefix="proctor-oracle-") as folder:
            tree = Path(folder)
            for path in paths:
                try:
                    await environment.get(posixpath.join(environment.workdir, path), _path_inside(tree, path))
                except FileNotFoundError:
                    continue  # the patch set makes it
            await asyncio.to_thread(apply, tree, oracle.text.encode("utf-8", "surrogateescape"), PatchKind.PATCH_SET)
            for path in paths:
                await environment.put(tree / path, posixpath.join(environment.workdir, path))
        return None, "the reference patch set is applied"


def _patched_paths(text: str) -> list[str]:
    try:
        return list(dict.fromkeys(str(patch["path"]) for patch in json.loads(text)["patches"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(f"the reference answer is not a patch set: {error!r}") from error


def _path_inside(tree: Path, path: str) -> Path:
    if posixpath.isabs(path) or ".." in path.split("/"):
        raise InvalidData(f"the reference patch set leaves the tree: {path!r}")
    place = tree / path
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _classify_result(result: ExecResult, what: str) -> tuple[Cause | None, str]:
    if result.timed_out:
        return Cause.AGENT_TIMEOUT, f"{what} was not done after {result.seconds:.0f} s"
    if result.exit_code != 0:
        said = truncate_line((result.stderr or result.stdout).decode("utf-8", "replace")[-2000:], 300)
        return Cause.AGENT_CRASHED, f"{what} failed with exit code {result.exit_code}: {said}"
    return None, f"{what} is in place"
