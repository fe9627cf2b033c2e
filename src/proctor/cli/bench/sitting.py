"""What `run` and `resume` have in common: a sitting with its progress, and what is said at its end."""

import asyncio
import os
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.output import note, print_json
from proctor.core.errors import InfrastructureError, Interrupted

if TYPE_CHECKING:
    from proctor.core.benchmark import Benchmark
    from proctor.core.run import RunConfig
    from proctor.results import RunStore


def sit(store: "RunStore", config: "RunConfig", source: "Benchmark", given: dict[str, Any]) -> int:
    """Go on with a run and report how the sitting ended."""
    from proctor.cli.bench.progress import watching  # noqa: PLC0415 - help pages need none of it
    from proctor.gateway import Secret  # noqa: PLC0415
    from proctor.runner.drive import Access, drive  # noqa: PLC0415

    name = f"{store.folder.parent.name}/{store.run_id}"
    key = os.environ.get("ANTHROPIC_API_KEY")
    access = Access(base_url=os.environ.get("ANTHROPIC_BASE_URL") or None, own_login=given["own_login"])
    try:
        with watching(store, config, quiet=given["quiet"]) as watcher:
            ending = asyncio.run(
                drive(
                    store,
                    config,
                    source,
                    watcher=watcher,
                    key=Secret(key) if key else None,
                    access=access,
                    program=given["claude_bin"],
                )
            )
    except (KeyboardInterrupt, asyncio.CancelledError):
        store.write_summary()
        raise Interrupted(
            f"run {name} is interrupted, and nothing that was paid for is lost",
            fix=f"go on with `proctor bench resume {name}`",
        ) from None
    summary = ending.summary
    if given["as_json"]:
        print_json(summary)
    else:
        cost = "unknown" if summary.cost_usd is None else f"${summary.cost_usd:.4f}"
        counted = summary.resolved + summary.unresolved
        click.echo(
            f"{name}: {summary.resolved} of {counted} graded answers resolved, {summary.errors} errors, "
            f"{summary.skipped} skipped; {summary.tokens:,} tokens, cost {cost}"
        )
    if ending.stopped_by is not None:
        note(f"stopped: {ending.detail}; {ending.left} answers are left, go on with `proctor bench resume {name}`")
    return InfrastructureError.exit_code if summary.errors or ending.left else 0
