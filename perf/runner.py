"""What a run costs beside the work it runs: CPU per no-op task, memory, and resuming a run that is 90 % done.

    python perf/runner.py [TASKS ...]          200 1000 4000 by default

Tasks whose preparing, collecting and grading do nothing, answered by nobody, go through the whole pipeline:
environments (of the `local` provider without isolation, or no-op ones to see the pipeline alone), journal, files,
results. Each row is a process of its own. Beside them, a bare loop writes the same files and lines with the same syncs,
one task after the other, and does nothing else. `own` is the CPU of the process itself; `children` that of the
environments' first processes.
"""

import argparse
import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from no_work import NoEnvironments, NoWork

from proctor.core.files import write_atomic

TARGET_MS = 5.0
TARGET_RESUME_SECONDS = 1.0
DONE = 0.9


class Nothing(NoWork):
    """A benchmark of tasks that take no work."""

    name = "nothing"
    source = "nothing"
    grader = "nothing/1"


def used() -> tuple[float, float, float]:
    """CPU seconds of this process and of its children so far, and its largest size in MiB."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime, own.ru_maxrss / 1024


async def session(folder: Path, count: int, *, environments: str, only: int | None = None) -> None:
    """One session of a run: the first, or a resumed one; without environments, the pipeline alone.

    `only` starts a run of that many of the tasks.
    """
    from proctor.core.request import RunRequest
    from proctor.results import list_runs
    from proctor.runner.session import run_session
    from proctor.runner.state import Session

    local, benchmark = environments == "local", Nothing([f"task-{number:05}" for number in range(count)])
    stores = list_runs(benchmark.name, root=folder)
    request = RunRequest(agent="nop", isolation=not local, concurrency=4, grade_concurrency=2, limit=only)
    session = Session(benchmark=benchmark, provider=None if local else NoEnvironments(), results=folder)
    await run_session(stores[0] if stores else request, session)


def one_environment(folder: Path) -> None:
    """The least that an environment is: a folder with the places of one, a process of its own, and neither any more."""
    for place in (folder, folder / "workspace", folder / "tmp", folder / "home"):
        place.mkdir()
    for name in ("lock", "log"):
        (folder / name).touch()
    subprocess.run(["true"], check=True)
    shutil.rmtree(folder)


def loop(folder: Path, count: int, like: Path, *, environments: bool = False) -> None:
    """Write what a run of this many tasks has written, in a bare loop."""
    logs = next((like / "logs").iterdir())
    files = {path.name: path.read_bytes() for path in (logs / "attempt-1").iterdir() if path.is_file()}
    result = next((like / "trials").glob("*.json")).read_bytes()
    lines = (like / "journal.jsonl").read_bytes().splitlines(keepends=True)
    per_task = max(1, len(lines) // len(list((like / "trials").iterdir())))
    (folder / "trials").mkdir()
    with (folder / "journal.jsonl").open("ab", buffering=0) as journal:
        for number in range(count):
            if environments:
                one_environment(folder / "environment")
            place = folder / "logs" / f"task-{number:05}" / "attempt-1"
            place.mkdir(parents=True)
            journal.write(lines[0])
            for name, data in files.items():
                if name in {"attempt.json", "submission.diff"}:
                    write_atomic(place / name, data)
                else:
                    (place / name).write_bytes(data)
            journal.write(lines[1])
            os.fdatasync(journal.fileno())
            write_atomic(folder / "trials" / f"task-{number:05}.json", result)
            journal.write(b"".join(lines[2:per_task]))
            os.fdatasync(journal.fileno())


def fill_up(run: Path, count: int) -> None:
    """Make a finished run of a few tasks one of many: the same results, under other names."""
    first = "task-00000"
    trials, journal = run / "trials", run / "journal.jsonl"
    result = (trials / f"{first}.json").read_text()
    lines = [line for line in journal.read_text().splitlines(keepends=True) if first in line]
    names = [f"task-{number:05}" for number in range(count)]
    for name in names:
        (trials / f"{name}.json").write_text(result.replace(first, name))
    journal.write_text("".join(line.replace(first, name) for name in names for line in lines))
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "tasks": names}))


def undo_the_last_tenth(folder: Path, count: int) -> None:
    """Make a finished run one that was killed at 90 %."""
    (run,) = (folder / "nothing").iterdir()
    kept = {f"task-{number:05}" for number in range(int(count * DONE))}
    journal = run / "journal.jsonl"
    lines = [line for line in journal.read_text().splitlines(keepends=True) if json.loads(line)["task_id"] in kept]
    journal.write_text("".join(lines))
    for path in list((run / "trials").iterdir()):
        if path.stem not in kept:
            path.unlink()
            shutil.rmtree(run / "logs" / path.stem)


def child(kind: str, folder: Path, count: int) -> None:
    """One row, in a process of its own; prints what it used."""
    if kind in {"loop", "floor"}:
        (like,) = (Path(os.environ["PERF_LIKE"]) / "nothing").iterdir()
        clock, (before, _, _) = time.perf_counter(), used()
        loop(folder, count, like, environments=kind == "floor")
        children = 0.0
    else:
        # What is imported once for all tasks is not counted.
        asyncio.run(session(folder.with_name(f"{folder.name}-warm-{os.getpid()}"), 2, environments=kind))
        clock, (before, children, _) = time.perf_counter(), used()
        asyncio.run(session(folder, count, environments=kind))
    own, after, size = used()
    row = {"wall": time.perf_counter() - clock, "own": own - before, "children": after - children, "rss": size}
    print(json.dumps(row))


def measured(kind: str, folder: Path, count: int, *, like: Path | None = None) -> dict[str, float]:
    """One row; a bare loop writes what is written in `like`."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, __file__, "--child", kind, str(folder), str(count)]
    env = {**os.environ, "PERF_LIKE": str(like or folder)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    row: dict[str, float] = json.loads(done.stdout)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=int, nargs="*", default=[200, 1000, 4000])
    counts = parser.parse_args().tasks
    met = True
    with tempfile.TemporaryDirectory(prefix="perf-") as name:
        base = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(base / "cache")
        print(f"{'':28}{'tasks':>7}{'own ms/task':>13}{'children':>10}{'wall':>8}{'MiB':>8}")
        for count in counts:
            rows = {}
            for kind, title in (
                ("local", "run, local environments"),
                ("none", "run, no-op environments"),
                ("loop", "bare loop"),
            ):
                like = base / f"local-{count}"
                rows[kind] = row = measured(kind, base / f"{kind}-{count}", count, like=like)
                each = [row[key] / count * 1000 for key in ("own", "children", "wall")]
                print(f"{title:28}{count:7}{each[0]:13.2f}{each[1]:10.2f}{each[2]:8.2f}{row['rss']:8.0f}", flush=True)
            ratio = rows["none"]["own"] / rows["loop"]["own"]
            print(f"{'pipeline / bare loop':28}{count:7}{ratio:12.1f}x")
            met &= rows["local"]["own"] / count * 1000 <= TARGET_MS
        print(f"\n{'resuming':28}{'tasks':>7}{'own s':>13}{'of it for the tenth':>22}{'the rest':>10}")
        for count in counts:
            per_task = measured("none", base / f"again-{count}", count)["own"] / count
            folder = base / f"none-{count}"
            undo_the_last_tenth(folder, count)
            own = measured("none", folder, count)["own"]
            tenth = per_task * (count - int(count * DONE))
            print(f"{'a run that is 90 % done':28}{count:7}{own:13.2f}{tenth:22.2f}{own - tenth:10.2f}", flush=True)
            met &= own - tenth <= TARGET_RESUME_SECONDS
    print(
        f"\ntargets: at most {TARGET_MS:g} ms of own CPU per task, "
        f"resuming in under {TARGET_RESUME_SECONDS:g} s beside the "
        f"tasks: {'met' if met else 'MISSED'}"
    )
    return 0 if met else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(main())
