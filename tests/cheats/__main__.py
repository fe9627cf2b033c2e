"""Prints what became of every cheat; ends with 1 if one of them wins.

Words on the command line choose by name; ``--controls 0`` turns control checks off.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cheats.catalogue import CHEATS
from cheats.cheat import Cheat
from cheats.harness import Harness, Outcome
from proctor.cli.output import print_table
from proctor.core.benchmark import GradeOptions
from proctor.grading import AuditCode


async def grade(cheats: Sequence[Cheat], controls: int) -> list[Outcome]:
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="proctor-cheats-") as folder, Harness(Path(folder) / "arena") as harness:
        for number, cheat in enumerate(cheats, 1):
            outcomes.append(await harness.grade(cheat, controls=controls))
            print(f"[{number}/{len(cheats)}] {cheat.name}", file=sys.stderr)
    return outcomes


def row(outcome: Outcome) -> list[str]:
    verdict = outcome.graded.verdict
    status = f"{verdict.status.value} ({verdict.cause.value})"
    findings = ", ".join([*outcome.findings, *(f"HARM: {harm}" for harm in outcome.harm)]) or "-"
    name = f"{outcome.cheat.name} WINS" if outcome.wins else outcome.cheat.name
    return [name, outcome.cheat.task, status, findings]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make cheats")
    parser.add_argument("words", nargs="*", help="parts of names")
    parser.add_argument("--controls", type=int, default=GradeOptions().controls, help="control pairs")
    asked = parser.parse_args()
    chosen = [cheat for cheat in CHEATS if not asked.words or any(word in cheat.name for word in asked.words)]
    outcomes = asyncio.run(grade(chosen, asked.controls))
    print_table(["CHEAT", "TASK", "VERDICT", "FINDINGS"], [row(outcome) for outcome in outcomes])
    winners = [outcome.cheat.name for outcome in outcomes if outcome.wins]
    stopped = sum(AuditCode.CONTROL_PASSED.value in outcome.findings for outcome in outcomes)
    print(
        f"\n{len(outcomes)} cheats: {len(winners)} win, {stopped} are stopped by control checks alone"
        + (f"\nwinners: {', '.join(winners)}" if winners else "")
    )
    return 1 if winners else 0


if __name__ == "__main__":
    sys.exit(main())
