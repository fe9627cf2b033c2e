"""The agent that submits the oracle. Its result shows whether a task can be solved."""

import asyncio
import json
import posixpath
import tempfile
import time
from pathlib import Path
from typing import Final

from proctor.agents.outcomes import CauseAndDetail, not_started_outcome, write_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest, ProgressCallback
from proctor.core.causes import Cause
from proctor.core.environment import Environment, ExecResult
from proctor.core.errors import InvalidData
from proctor.core.formatting import truncate_line
from proctor.core.result import AgentMetrics
from proctor.core.submission import PatchKind
from proctor.core.task import Oracle

# Neither script leaves a copy of the oracle in the environment; both read it from standard input.
_APPLY: Final = """
patch=$(mktemp) && trap 'rm -f "$patch"' EXIT && cat >"$patch" || exit 1
if command -v git >/dev/null 2>&1; then
  GIT_CEILING_DIRECTORIES=$(dirname "$PWD") git apply --whitespace=nowarn "$patch"
elif command -v patch >/dev/null 2>&1; then
  patch -p1 --no-backup-if-mismatch <"$patch"
else
  echo "there is neither git nor patch in the environment" >&2
  exit 1
fi
"""
_RUN: Final = """
script=$(mktemp) && trap 'rm -f "$script"' EXIT && cat >"$script" || exit 1
"$(command -v bash || command -v sh)" "$script" </dev/null
"""


class OracleAgent(Agent):
    """Applies the oracle's patch, or runs its script.

    Args:
        setup: `oracle` is that of the task; `apply_patch` is needed for patch sets.
    """

    name = "oracle"
    needs_sandbox = False
    needs_model = False
    needs_oracle = True

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Apply or run the oracle."""
        oracle = self._setup.oracle
        if oracle is None:
            return write_outcome(request, not_started_outcome(Cause.NO_SUBMISSION, "the task has no oracle"))
        started = time.monotonic()
        match oracle.patch_kind:
            case PatchKind.PATCH_SET:
                on_progress("applying the oracle's patch set")
                cause, detail = await self._apply_patch_set(oracle, environment)
            case kind:
                script, what = (_RUN, "script") if kind is None else (_APPLY, "patch")
                on_progress(f"{'running' if kind is None else 'applying'} the oracle's {what}")
                text = oracle.steps.get(request.step, oracle.text)
                done = await environment.exec(
                    ["sh", "-c", script],
                    stdin=text.encode("utf-8", "surrogateescape"),
                    timeout=request.wall_seconds,
                )
                cause, detail = _classify_result(done, f"the oracle's {what}")
        seconds = time.monotonic() - started
        return write_outcome(
            request, AgentOutcome(cause=cause, detail=detail, seconds=seconds, metrics=AgentMetrics(agents=0))
        )

    async def _apply_patch_set(self, oracle: Oracle, environment: Environment) -> CauseAndDetail:
        """Patch copies of the named files on the host and put them back: no environment can apply patch sets."""
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
        return None, "the oracle's patch set is applied"


def _patched_paths(text: str) -> list[str]:
    try:
        return list(dict.fromkeys(str(patch["path"]) for patch in json.loads(text)["patches"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(f"the oracle is not a patch set: {error!r}") from error


def _path_inside(tree: Path, path: str) -> Path:
    if posixpath.isabs(path) or ".." in path.split("/"):
        raise InvalidData(f"the oracle's patch set leaves the tree: {path!r}")
    target = tree / path
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _classify_result(result: ExecResult, what: str) -> CauseAndDetail:
    if result.timed_out:
        return Cause.AGENT_TIMEOUT, f"{what} was not done after {result.seconds:.0f} s"
    if result.exit_code != 0:
        message = truncate_line((result.stderr or result.stdout).decode("utf-8", "replace")[-2000:], 300)
        return Cause.AGENT_CRASHED, f"{what} failed with exit code {result.exit_code}: {message}"
    return None, f"{what} is in place"
