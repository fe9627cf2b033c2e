"""Prints what became of every cheat; ends with 1 if one of them wins. Words on the command line choose by name."""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cheats.arena import Arena, Outcome
from cheats.catalogue import CHEATS
from cheats.cheat import Cheat
from proctor.cli.output import print_table


async def grade(cheats: Sequence[Cheat]) -> list[Outcome]:
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="proctor-cheats-") as folder, Arena(Path(folder) / "arena") as arena:
        for number, cheat in enumerate(cheats, 1):
            outcomes.append(await arena.grade(cheat))
            print(f"[{number}/{len(cheats)}] {cheat.name}", file=sys.stderr)
    return outcomes


def row(outcome: Outcome) -> list[str]:
    verdict = outcome.graded.verdict
    status = f"{verdict.status.value} ({verdict.cause.value})"
    findings = ", ".join([*outcome.findings, *(f"HARM: {harm}" for harm in outcome.harm)]) or "-"
    return [outcome.cheat.name, outcome.cheat.defence, status, f"WINS: {findings}" if outcome.wins else findings]


def main() -> int:
    words = sys.argv[1:]
    outcomes = asyncio.run(grade([cheat for cheat in CHEATS if not words or any(word in cheat.name for word in words)]))
    print_table(["CHEAT", "DEFENCE", "VERDICT", "AUDIT"], [row(outcome) for outcome in outcomes])
    winners = [outcome.cheat.name for outcome in outcomes if outcome.wins]
    resolved = sum(outcome.graded.verdict.cause.value == "solved" for outcome in outcomes)
    print(
        f"\n{len(outcomes)} cheats: {len(outcomes) - resolved} unresolved, {resolved} resolved and named by the audit, "
        f"{len(winners)} win" + (f": {', '.join(winners)}" if winners else "")
    )
    return 1 if winners else 0


if __name__ == "__main__":
    sys.exit(main())
