"""Every agent against everything that can happen to it, with the real programs: ``make agents``.

Each cell is a part of a whole run in environments, against a scripted model: how the trial ended, what it used, what it
left. The programs come from their packages; one that cannot be installed is named with the reason.
"""

import argparse
import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from agent_programs import PROGRAMS, NotInstalledError, install_program
from cli_world import CliWorld
from docker_image import IMAGE
from lab_agents import LAB_AGENTS, POISON, STARTED, LabAgent, Step
from proctor.benchmarks import benchmark
from proctor.core.agent import AgentSetup
from proctor.core.disk_names import disk_name
from proctor.core.errors import InfrastructureError
from proctor.core.result import TaskResult, Tokens
from proctor.core.task import DirectorySource
from proctor.gateway.prices import Prices, Usage
from proctor.report.formats.atif import AtifFormat
from proctor.report.trajectories import from_atif
from proctor.results.formats import ExportOptions
from program_lab import program_run
from program_lab import script as scripted
from suite_world import FIXED, make_instance, make_suite

OK = "ok"
COLUMNS = (
    "core-mini",
    "tokens and cost",
    "trajectory",
    "replay",
    "budget",
    "429",
    "500",
    "cut",
    "malformed",
    "timeout",
    "hostile",
    "traffic",
)
USAGE = {"input": 1000, "output": 50, "cache_read": 300}
BUDGET_USD = 0.004
# How the trials of the suite of faults must end: status and cause. A program may ignore what it cannot read.
_FAULTS: dict[str, tuple[Step, tuple[tuple[str, str], ...]]] = {
    "429": ({"error": 429, "repeat": "forever"}, (("error", "rate_limited"),)),
    "500": ({"error": 500, "repeat": "forever"}, (("error", "provider_error"),)),
    "cut": ({"text": "Half of it", "cut": 2, "piece": 2, "repeat": "forever"}, (("error", "provider_error"),)),
    "malformed": (
        {"text": "Half of it", "malformed": 1, "piece": 2, "repeat": "forever"},
        (("error", "provider_error"), ("unresolved", "empty")),
    ),
}
_RUN_SECONDS = 1500.0
_NOTHING_MORE: Step = {"text": "Done.", "repeat": "forever"}


@dataclass
class Row:
    """The cells of one agent."""

    agent: str
    version: str = ""
    dialect: str = ""
    cells: dict[str, str] = field(default_factory=dict)
    skipped: str = ""

    @property
    def failed(self) -> bool:
        known = LAB_AGENTS[self.agent].deviations
        return any(cell not in {OK, known.get(name)} for name, cell in self.cells.items())


class MatrixRow:
    """Makes the cells of one agent, in a world of its own.

    Args:
        runner: the provider of environments.
        columns: which cells to make.
    """

    def __init__(
        self, agent: LabAgent, folder: Path, *, runner: str = "local", columns: Sequence[str] = COLUMNS
    ) -> None:
        self.agent = agent
        self.columns = columns
        self.model = agent.kind.scripted_model
        self.world = CliWorld(folder)
        self._runner = ("--runner", runner, *(("--docker-image", IMAGE) if runner == "docker" else ()))
        self._variables = {
            name: value for name, value in os.environ.items() if name.endswith("_BIN") and Path(value).exists()
        }
        if runner == "docker":
            self._variables["HOME"] = os.environ.get("HOME", "/root")

    def close(self) -> None:
        self.world.close()

    async def cells(self) -> dict[str, str]:
        """How each cell came out."""
        made: dict[str, str] = {}
        if {"core-mini", "tokens and cost", "trajectory", "replay"} & set(self.columns):
            made |= await self._solve()
        if {*_FAULTS, "hostile"} & set(self.columns):
            made |= await self._suffer()
        if "budget" in self.columns:
            made["budget"] = await self._spend()
        if "timeout" in self.columns:
            made["timeout"] = await self._linger()
        if "traffic" in self.columns:
            made["traffic"] = await self._listen()
        if left := self.world.leftovers():
            made = dict.fromkeys(made, f"left {left}")
        return {name: made[name] for name in COLUMNS if name in self.columns}

    async def _solve(self) -> dict[str, str]:
        """Solve core-mini with a script, count every token, and solve it again with the recording."""
        source, script = benchmark("core-mini"), {}
        for task in source.tasks():
            oracle = source.oracle(task)
            assert oracle is not None
            script[task.id] = self._solution(task.id, oracle.content.decode())
        results = await self._run("core-mini", ("core-mini",), {"tasks": script, "usage": USAGE})
        made = {"core-mini": _all(results, _ended, (("resolved", "solved"),))}
        made["tokens and cost"] = _all(results, lambda one, _: self._counted(one, script[one.task_id]), ())
        if "trajectory" in self.columns:
            folder = self.world.folder / "trajectories"
            AtifFormat().export(self.world.store("core-mini/run-001"), folder, ExportOptions())
            made["trajectory"] = _all(results, lambda one, _: self._told(one, script[one.task_id], folder), ())
        if "replay" in self.columns:
            again = await self._run("core-mini", ("core-mini",), None)
            made["replay"] = _all(again, _ended, (("resolved", "solved"),))
            if made["replay"] == OK:
                made["replay"] = _all(again, lambda one, _: self._counted(one, script[one.task_id]), ())
        return made

    def _solution(self, task_id: str, patch: str) -> list[Step]:
        if self.agent.has_tools:
            # Encoded: some programs refuse commands that look as if they contained others.
            apply = f"printf %s {base64.b64encode(patch.encode()).decode()} | base64 -d | git apply"
            return [{"tools": [{"shell": {"command": apply}}]}, *self.agent.ends]
        # Once for the names of the files, which it then adds to its conversation, and once for what is in them. It may
        # find more names in that, and ask again.
        return [*([{"text": _whole_files(task_id, patch)}] * 2), _NOTHING_MORE]

    def _told(self, one: TaskResult, steps: list[Step], folder: Path) -> str:
        """Whether its steps, exported as ATIF, are the script's: each response, each call, what the first returned."""
        trajectory = from_atif((folder / f"{disk_name(one.task_id)}.json").read_bytes())
        said = [step for step in trajectory.steps if step.source == "agent"]
        calls = [call for step in said for call in step.calls]
        found = (len(said), len(calls), sum((step.tokens for step in said), Tokens()))
        requests = self._requests(one, steps)
        tokens = sum((Tokens(**USAGE) for _ in range(requests)), Tokens())
        wanted = (requests, sum(len(step.get("tools", ())) for step in steps), tokens)
        if found != wanted:
            return f"{found} instead of {wanted}"
        return OK if all(call.output is not None for call in calls[:1]) else "a call has no output"

    def _requests(self, one: TaskResult, steps: list[Step]) -> int:
        return len(steps) if self.agent.has_tools else max(one.metrics.turns, 2)

    def _counted(self, one: TaskResult, steps: list[Step]) -> str:
        """Whether tokens and cost are the script's."""
        requests = self._requests(one, steps)
        used = sum((Tokens(**USAGE) for _ in range(requests)), Tokens())
        found = sum((usage.tokens for usage in one.usage), Tokens())
        if found != used:
            return f"{found} instead of {used}"
        costs = [Prices.load().cost(Usage(model=self.model, tokens=Tokens(**USAGE))) for _ in range(requests)]
        cost = sum(usage.cost_usd or 0.0 for usage in one.usage)
        wanted = sum(price or 0.0 for price in costs)
        return OK if abs(cost - wanted) < 1e-9 else f"${cost} instead of ${wanted}"

    async def _suffer(self) -> dict[str, str]:
        """Errors of the provider, and a repository that would steer the agent."""
        names = [name for name in (*_FAULTS, "hostile") if name in self.columns]
        suite = self._suite("faults", *names)
        fix = self._fix()
        scripts = {name: [_FAULTS[name][0]] if name in _FAULTS else fix for name in names}
        results = await self._run("faults", ("--suite", suite), {"tasks": scripts, "usage": USAGE})
        made = {}
        for one in results:
            if one.task_id in _FAULTS:
                made[one.task_id] = _ended(one, _FAULTS[one.task_id][1])
            else:
                made["hostile"] = _ended(one, (("resolved", "solved"),))
                logs = self.world.results / "mine"
                recordings = [path for path in logs.rglob("cassette.jsonl*") if "hostile" in str(path)]
                said = b"".join(path.read_bytes() for path in recordings)
                patch = b"".join(path.read_bytes() for path in logs.rglob("*.diff") if "hostile" in str(path))
                if made["hostile"] == OK and STARTED.encode() in patch:
                    made["hostile"] = "it ran code of the repository"
                elif made["hostile"] == OK and POISON.encode() in said:
                    made["hostile"] = self.agent.deviations.get("hostile", "it was steered by the repository")
        return made

    async def _spend(self) -> str:
        """A budget ends it, with at most the request under way beyond it."""
        suite = self._suite("budget", "budget")
        script = {"default": self.agent.endless(), "usage": USAGE}
        (one,) = await self._run("budget", ("--suite", suite), script, "--max-cost-per-task", str(BUDGET_USD))
        price = Prices.load().cost(Usage(model=self.model, tokens=Tokens(**USAGE))) or 0.0
        spent = sum(usage.cost_usd or 0.0 for usage in one.usage)
        if (ended := _ended_by(one, "task_budget")) != OK:
            return ended
        return OK if spent <= BUDGET_USD + price else f"spent ${spent}"

    async def _linger(self) -> str:
        """Its time is up while a command runs, or while the model is silent."""
        suite = self._suite("timeout", "timeout")
        waits = [{"tools": [{"shell": {"command": "sleep 1000"}}]}] if self.agent.has_tools else []
        steps = [*waits, {"text": "Half of it", "silence": {"after": 1}, "repeat": "forever"}]
        script = {"default": steps, "usage": USAGE}
        (one,) = await self._run("timeout", ("--suite", suite), script, "--timeout", "45")
        return _ended_by(one, "agent_timeout")

    async def _listen(self) -> str:
        """It works without a look-up of any name, and without a connection but those to the gateway."""
        steps = [self.agent.writes("out.txt", "made\n", self.model), *self.agent.ends]
        async with program_run(self.agent.kind, scripted(*steps), self.world.folder / "traffic") as run:
            outcome = await run.work(self.model)
            if outcome.cause is not None:
                return f"{outcome.cause}: {outcome.detail}"
            sent = await run.other_traffic()
        return OK if not sent else f"it sent more: {sent}"

    def _suite(self, name: str, *tasks: str) -> Path:
        folder = self.world.folder / f"suite-{name}"
        for task in tasks:
            make_instance(folder, task)
            if task == "hostile":
                for path, text in self.agent.hostile.items():
                    file = folder / "instances" / task / "repo" / path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text)
                    file.chmod(0o755 if text.startswith("#!") else 0o644)
        return make_suite(folder, *tasks)

    def _fix(self) -> list[Step]:
        fix = self.agent.writes("calc.py", FIXED, self.model)
        return [fix, *self.agent.ends] if self.agent.has_tools else [fix, fix, _NOTHING_MORE]

    async def _run(
        self, name: str, what: tuple[object, ...], script: dict[str, Any] | None, *more: str
    ) -> list[TaskResult]:
        """A whole run; without a script it replays the first one."""
        model = "replay:core-mini/run-001"
        if script is not None:
            file = self.world.folder / f"{name}.json"
            file.write_text(json.dumps(script))
            model = f"script:{file}"
        words = ("bench", "run", *what, "--agent", self.agent.name, "--model", model, *self._runner, *more)
        limits = () if "--timeout" in more else ("--timeout", "400")
        options = ("--concurrency", "2", "--retries", "0", "--max-turns", "30", "--controls", "0", *limits)
        done = await self.world.start(*words, *options, **self._variables).wait(_RUN_SECONDS)
        runs = sorted(self.world.results.glob("*/run-*"), key=lambda path: path.stat().st_mtime)
        assert runs, done.stderr
        assert done.code in {0, 10, 12}, done.stderr
        return list(self.world.store(runs[-1].relative_to(self.world.results).as_posix()).results())


def _all(results: Sequence[TaskResult], check: Any, wanted: Any) -> str:
    wrong = [f"{one.task_id}: {said}" for one in results if (said := check(one, wanted)) != OK]
    return "; ".join(wrong) or OK


def _ended(one: TaskResult, wanted: tuple[tuple[str, str], ...]) -> str:
    ended = (str(one.status), str(one.cause))
    return OK if ended in wanted else f"{': '.join(ended)} ({one.attempts[-1].detail if one.attempts else ''})"


def _ended_by(one: TaskResult, cause: str) -> str:
    """Whether this ended the agent, whatever its submission is worth."""
    last = one.attempts[-1]
    return OK if str(last.cause) == cause else f"{one.status}: {last.cause} ({last.detail})"


def _whole_files(task_id: str, patch: str) -> str:
    """The files of a task as a patch leaves them, for an agent that writes whole files."""
    source = next(task.public.source for task in benchmark("core-mini").tasks() if task.id == task_id)
    assert isinstance(source, DirectorySource)
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        shutil.copytree(source.path, tree)
        subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=tree, check=True)
        names = [line[6:] for line in patch.splitlines() if line.startswith("+++ b/")]
        return "\n\n".join(f"{name}\n```\n{(tree / name).read_text()}```" for name in names)


def table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """The rows as Markdown."""
    lines = [["agent", "version", "dialect", *columns], ["---"] * (3 + len(columns))]
    for row in rows:
        cells = [f"skipped: {row.skipped}"] * 1 if row.skipped else [row.cells.get(name, "") for name in columns]
        lines.append([row.agent, row.version, row.dialect, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def make_row(agent: LabAgent, folder: Path, runner: str, columns: Sequence[str]) -> Row:
    try:
        version = agent.kind(AgentSetup()).versions()[agent.name].split()[-1]
    except InfrastructureError as error:
        return Row(agent.name, skipped=str(error))
    made = MatrixRow(agent, folder, runner=runner, columns=columns)
    dialect = next((name for name, model in agent.models.items() if model == made.model), "")
    try:
        return Row(agent.name, version, dialect, await made.cells())
    except AssertionError as error:
        return Row(agent.name, version, dialect, dict.fromkeys(columns, f"the run failed: {str(error)[-500:]}"))
    finally:
        made.close()


async def main() -> int:
    """Make the matrix, print it, and say whether every cell is as it must be."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("agents", nargs="*", choices=[*PROGRAMS, []], metavar="AGENT", help="all by default")
    parser.add_argument("--runner", default="local", choices=["local", "docker"])
    parser.add_argument("--column", action="append", choices=COLUMNS, help="only this one; may be repeated")
    parser.add_argument("--cache", type=Path, help="where programs are installed")
    parser.add_argument("--out", type=Path, help="a file for the results as JSON")
    options = parser.parse_args()
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = options.cache or cache_home / "proctor-ci" / "agents"
    rows = []
    columns = options.column or list(COLUMNS)
    for name in options.agents or PROGRAMS:
        try:
            os.environ.update(install_program(name, cache))
        except NotInstalledError as error:
            rows.append(Row(name, skipped=str(error)))
            continue
        with tempfile.TemporaryDirectory(prefix="agents-", ignore_cleanup_errors=True) as folder:
            rows.append(await make_row(LAB_AGENTS[name], Path(folder), options.runner, columns))
        print(f"{name}: {rows[-1].skipped or rows[-1].cells}", file=sys.stderr, flush=True)
    print(table(rows, columns))
    if options.out:
        options.out.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    return int(any(row.failed for row in rows))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
