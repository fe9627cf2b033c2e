"""Every speed target in one table: ours, the alternative in the same run, and the code of before in turns with it.

    .venv/bin/python perf/table.py [--old TREE] [--quick] [ROW ...]

`make perf` runs it with three rounds, then how the rows grow; `make perf OLD=path` measures the sources of another
clone beside these, in turns. On a machine that does other things, times mean little. A row that misses its target says
why. `--quick` takes small sizes and one round, and fails only if something does not run.
"""

import argparse
import compileall
import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 3
HERE = Path(__file__).resolve().parent
Medians = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        target: how many times the alternative it may take, or with `absolute` how many `unit`s.
        sizes: of the quick form, of the table, and of its growth.
        why: what keeps it from its target, where that is known.
    """

    name: str
    what: str
    alternative: str
    unit: str
    target: float | dict[str, float]
    sizes: tuple[int, int, tuple[int, ...]]
    absolute: bool = False
    why: str = ""

    def target_of(self, part: str) -> float:
        return self.target.get(part, 0.0) if isinstance(self.target, dict) else 0.0 if part else self.target


ROWS = (
    Row("help", "bench run --help", "python -c pass", "ms CPU", 4.0, (3, 20, ())),
    Row(
        "environment",
        "local environment: start, true, stop",
        "bwrap … true",
        "ms",
        2.0,
        (3, 20, ()),
        why="its first process is a Python, which starts for longer than all of bubblewrap",
    ),
    Row(
        "eval",
        "bench eval, per instance, without controls",
        "a shell loop",
        "ms",
        1.2,
        (6, 200, (50, 100, 400, 800)),
        why="two environments for each instance, whose mounts the loop does not make",
    ),
    Row(
        "no-op",
        "no-op task, own CPU",
        "a loop that writes and syncs the same",
        "ms CPU",
        3.0,
        (20, 200, (1000, 4000)),
        absolute=True,
        why="the same files, syncs and an empty environment take the floor; the rest is the pipeline, in Python",
    ),
    Row(
        "resume",
        "resume with nothing left to do, own CPU",
        "decoding the results once",
        "ms CPU",
        150.0,
        (200, 4000, (400, 40_000)),
        absolute=True,
    ),
    Row(
        "sandbox",
        "sandbox",
        "cp -r, rm -rf and cp -r, rm -rf",
        "ms",
        {"create": 1.2, "reset": 1.2, "destroy": 1.2},
        (3, 60, ()),
        why="verified stopping: two looks through all processes of the machine, whose number the time grows with",
    ),
    Row(
        "cold",
        "cold workspace: mirror, base, checkout",
        "clone and checkout",
        "ms",
        1.2,
        (40, 2000, ()),
        why="the base's past is packed once more: what came later must not be in it",
    ),
    Row(
        "copies",
        "workspace copied",
        "cp -r",
        "ms",
        {"in": 1.1, "out": 1.5},
        (200, 20_000, (2000, 50_000)),
        why="each entry is opened by descriptors, from a program in Python",
    ),
    Row(
        "state",
        "state grading of a container, without controls",
        "docker exec of its command",
        "ms",
        1000.0,
        (1, 8, ()),
        absolute=True,
    ),
)


def measure(row: Row, size: int, tree: Path) -> Medians | None:
    """Measure a row once, with the sources of a tree; None: it does not run with those."""
    env = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, str(HERE / "rows.py"), row.name, str(size)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return None
    return {part: (ours, other) for part, (ours, other) in json.loads(done.stdout).items()}


def medians(rounds: list[Medians]) -> Medians:
    return {
        part: (statistics.median(one[part][0] for one in rounds), statistics.median(one[part][1] for one in rounds))
        for part in rounds[0]
    }


def compare(row: Row, size: int, trees: dict[str, Path], rounds: int) -> bool:
    """Print a row; whether it meets its targets."""
    taken: dict[str, list[Medians]] = {name: [] for name in trees}
    for _ in range(rounds):
        for name, tree in trees.items():
            if name in taken and (measured := measure(row, size, tree)) is not None:
                taken[name].append(measured)
            elif name == "new":
                raise SystemExit(f"{row.name} cannot be measured")
            else:
                taken.pop(name, None)  # its parts had other names
    new = medians(taken["new"])
    old = medians(taken["old"]) if "old" in taken else {}
    all_met = True
    for part, (ours, other) in new.items():
        target = row.target_of(part)
        before = f"{old[part][0]:9.1f} ({old[part][0] / old[part][1]:5.2f}x)" if part in old else ""
        verdict = ""
        if target:
            met = ours <= target if row.absolute else ours / other <= target
            all_met &= met
            verdict = f"target {target:g}{f' {row.unit}' if row.absolute else 'x'}: {'met' if met else 'MISSED'}"
        title = f"{row.what} {part}".strip()
        print(
            f"{title:62.62}{size:7}  {before:>18}  {ours:9.1f} ({ours / other:5.2f}x)  "
            f"{row.alternative} {other:.1f} {row.unit}; {verdict}",
            flush=True,
        )
    if not all_met and row.why:
        print(f"    why: {row.why}")
    return all_met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, help="another clone, measured in turns with this one")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round, no verdict on times")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"which: {', '.join(row.name for row in ROWS)}")
    chosen = parser.parse_args()
    rows = [row for row in ROWS if not chosen.rows or row.name in chosen.rows]
    if len(rows) < len(chosen.rows):
        parser.error(f"rows are {', '.join(row.name for row in ROWS)}")
    trees = {"old": chosen.old.resolve()} if chosen.old else {}
    trees["new"] = HERE.parent
    for tree in {**trees, "perf": HERE}.values():
        # As in an installed package, whatever PYTHONDONTWRITEBYTECODE says: nothing is compiled while it is measured.
        # The programs of shipped suites are data: nothing is put beside them.
        compileall.compile_dir(
            tree / "src/proctor" if tree != HERE else HERE, quiet=2, rx=re.compile(r"/proctor/suites/")
        )
    started = time.monotonic()
    print(f"{'':62}{'size':>7}  {'old':>18}  {'new':>18}  the alternative; the target")
    rounds = 1 if chosen.quick else ROUNDS
    verdicts = [compare(row, row.sizes[0] if chosen.quick else row.sizes[1], trees, rounds) for row in rows]
    if not chosen.quick:
        print("\ngrowth, one round")
        for row in rows:
            for size in row.sizes[2]:
                compare(row, size, {"new": trees["new"]}, 1)
    print(f"\n{time.monotonic() - started:.0f} s")
    return 0 if all(verdicts) or chosen.quick else 1


if __name__ == "__main__":
    sys.exit(main())
