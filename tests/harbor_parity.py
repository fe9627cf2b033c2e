"""Tasks of Harbor's format through Harbor and through Proctor, with the solution and with nothing: ``make harbor``.

The samples in tests/samples/harbor_tasks, core-mini and a mined suite as `bench export` writes them, and the folders of
tasks that are named. Prints the rewards of both, and fails where they differ. What Harbor cannot run here is named, and
counts for nothing: for tasks with a network of their own it builds an image on one from a registry. Needs Docker with
its compose plugin, the set-up image, and Harbor as a program: on PATH, or named by HARBOR_BIN.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mining_world import calculator
from paths import REPOSITORY
from proctor.benchmarks.harbor import read_task
from proctor.benchmarks.harbor.task import NetworkMode
from proctor.cli.output import print_table
from setup_world import SETUP_IMAGE

AGENTS = ("oracle", "nop")
_CONCURRENCY = "2"


def started(words: Sequence[str | Path], folder: Path, log: Path, *codes: int) -> None:
    """Run a command to its end; what it prints is in `log`."""
    variables = os.environ | {
        "PROCTOR_CACHE": str(folder / "cache"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTHONPATH": "",
    }
    with log.open("wb") as out:
        done = subprocess.run(
            list(map(str, words)),
            cwd=folder,
            env=variables,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    if done.returncode not in {0, *codes}:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{log.read_text()[-3000:]}")


def exported(folder: Path) -> Iterator[Path]:
    """Suites as tasks of Harbor's: a shipped one, and one that is mined now."""
    folder.mkdir()
    proctor = Path(sys.executable).parent / "proctor"
    repository = calculator(folder / "repository").folder
    mine: list[str | Path] = [proctor, "suite", "mine", repository, "--out", folder / "mined", "--runner", "local"]
    started(mine, folder, folder / "mine.log")
    for suite in ("core-mini", folder / "mined"):
        target = folder / f"exported-{Path(suite).name}"
        words: list[str | Path] = [proctor, "bench", "export", suite, "--format", "harbor-tasks"]
        words += ["--out", target, "--image", SETUP_IMAGE]
        started(words, folder, folder / "export.log")
        yield target


def harbor_rewards(harbor: str, tasks: Path, agent: str, folder: Path) -> dict[str, str]:
    """What Harbor gives each task."""
    name = f"{tasks.name}-{agent}"
    runnable, seen = folder / "runnable" / name, dict[str, str]()
    for task in (read_task(file.parent) for file in sorted(tasks.glob("*/task.toml"))):
        if all(policy.mode is NetworkMode.PUBLIC for policy in task.phases):
            shutil.copytree(task.path, runnable / task.path.name, symlinks=True)
        else:
            seen[task.name] = "cannot run it: its network"
    if not runnable.exists():
        return seen
    words: list[str | Path] = [harbor, "run", "-p", runnable, "-a", agent, "--job-name", name]
    words += ["--jobs-dir", folder / "jobs", "-n", _CONCURRENCY, "-q", "-y"]
    started(words, folder, folder / f"harbor-{name}.log")
    for file in sorted((folder / "jobs" / name).glob("*/result.json")):
        trial = json.loads(file.read_text())
        raised = trial.get("exception_info")
        rewards = (trial.get("verifier_result") or {}).get("rewards")
        seen[trial["task_name"]] = f"cannot run it: {raised['exception_type']}" if raised else shown(rewards)
    return seen


def proctor_rewards(tasks: Path, agent: str, folder: Path) -> dict[str, str]:
    """What Proctor gives each task, with its status. Controls change no reward."""
    where = folder / f"proctor-{tasks.name}-{agent}"
    where.mkdir()
    words: list[str | Path] = [
        Path(sys.executable).parent / "proctor",
        "bench",
        "run",
        "--suite",
        tasks,
        "--agent",
        agent,
    ]
    words += ["--runner", "docker", "--concurrency", _CONCURRENCY, "--controls", "0", "--quiet"]
    started(words, where, where / "log", 12)
    seen = {}
    for file in sorted(where.glob("results/*/run-001/trials/*.json")):
        result = json.loads(file.read_text())
        verdict = result.get("verdict") or {}
        seen[result["task_id"]] = f"{shown(verdict.get('scores'))} {result['status']}"
    return seen


def shown(rewards: dict[str, Any] | None) -> str:
    """Rewards in one line, without those of single steps."""
    named = {name: value for name, value in (rewards or {}).items() if "/" not in name}
    return ", ".join(f"{name} {value:g}" for name, value in sorted(named.items())) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make harbor", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of tasks, beside the project's own")
    parser.add_argument("--only", action="store_true", help="only the folders that are named")
    asked = parser.parse_args()
    harbor = os.environ.get("HARBOR_BIN") or shutil.which("harbor")
    if harbor is None:
        print("Harbor is not installed: nothing to compare with (HARBOR_BIN names its program)")
        return 1
    rows, differ = [], 0
    with tempfile.TemporaryDirectory(prefix="proctor-harbor-") as name:
        folder = Path(name)
        sets = [place.absolute() for place in asked.folders]
        if not asked.only:
            sets += [REPOSITORY / "tests" / "samples" / "harbor_tasks", *exported(folder / "suites")]
        for tasks in sets:
            theirs = {agent: harbor_rewards(harbor, tasks, agent, folder) for agent in AGENTS}
            ours = {agent: proctor_rewards(tasks, agent, folder) for agent in AGENTS}
            for task in sorted({*ours["oracle"], *theirs["oracle"]}):
                cells = [by[agent].get(task, "not run") for agent in AGENTS for by in (theirs, ours)]
                is_same = all(
                    there.startswith("cannot") or here.rpartition(" ")[0] == there
                    for there, here in zip(cells[::2], cells[1::2], strict=True)
                )
                differ += not is_same
                rows.append([tasks.name, task, *cells, "same" if is_same else "DIFFERENT"])
    print_table(["TASKS", "TASK", "ORACLE HARBOR", "ORACLE PROCTOR", "NOP HARBOR", "NOP PROCTOR", ""], rows)
    print(f"\n{len(rows)} tasks, {differ} with different rewards")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
