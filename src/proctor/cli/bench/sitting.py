"""What `run` and `resume` have in common: a sitting with its progress, its signals, and what is said at its end."""

import asyncio
import os
import signal
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proctor.cli.bench.options import AMOUNT, image_disk_option
from proctor.cli.output import note, print_json
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError, Interrupted

if TYPE_CHECKING:
    from proctor.core.benchmark import Benchmark
    from proctor.results import RunStore
    from proctor.runner.drive import Ending, OnPull, Sitting
    from proctor.runner.models import Access

T = TypeVar("T")


def sitting_options(function: Any) -> Any:
    """Options that hold for one sitting, and may be another at the next."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
        click.option(
            "--prices",
            type=click.Path(path_type=Path),
            metavar="FILE",
            envvar="PROCTOR_PRICES",
            show_envvar=True,
            help="A JSON or YAML file of prices, beside those that come with Proctor.",
        ),
        click.option("--quiet", is_flag=True, help="No progress on stderr."),
        image_disk_option,
        click.option(
            "--retries",
            type=click.IntRange(min=0),
            metavar="N",
            default=2,
            show_default=True,
            help="How often to try again after an error that was not the agent's.",
        ),
        click.option(
            "--auth-from",
            metavar="DIR",
            help="With --own-login: where the login is. [default: ~/.h2/claude-config/default]",
        ),
        click.option("--own-login", is_flag=True, help="Let the agent's own login through, instead of adding a key."),
        click.option(
            "--claude-bin",
            metavar="FILE",
            help="Claude Code, where it is not found by itself; for the agent `command`, what to show in the room.",
        ),
        click.option("--h2-bin", metavar="FILE", help="For pods: the program h2, where it is not found by itself."),
        click.option(
            "--max-cost",
            type=AMOUNT,
            metavar="USD",
            help="What the whole run, or the whole sweep, may cost.",
        ),
    ):
        function = option(function)
    return function


def access_of(given: dict[str, Any]) -> "Access":
    """How the provider is reached, as options and environment say."""
    from proctor.core.errors import UsageError  # noqa: PLC0415
    from proctor.runner.models import Access  # noqa: PLC0415 - help pages need none of it
    from proctor.sandboxes.credentials import source_directory  # noqa: PLC0415

    if not given["own_login"]:
        if given["auth_from"] is not None:
            raise UsageError("--auth-from names a login that is not used", fix="give --own-login too")
        return Access.from_environment(os.environ)
    login = source_directory(given["auth_from"])
    if login is None:
        raise UsageError("there is no login in the usual place", fix="say where it is with --auth-from DIR")
    return Access.from_environment(os.environ, login=login)


def bound_text(bound: float | None, *, options: str) -> str:
    """The most that something can cost, in words; `options` are what bounds it."""
    if bound is None:
        return f"not bounded: give {options}"
    return f"${bound:.2f}, and the requests under way when it is reached" if bound else "nothing: no model is asked"


def sit(store: "RunStore", source: "Benchmark", given: dict[str, Any], access: "Access") -> int:
    """Go on with a run and report how the sitting ended."""
    from proctor.cli.bench.progress import Progress  # noqa: PLC0415 - help pages need none of it
    from proctor.runner.drive import drive  # noqa: PLC0415
    from proctor.runner.scratch import temporary_files_here  # noqa: PLC0415

    name = f"{store.folder.parent.name}/{store.run_id}"
    sitting = sitting_of(given, access)
    try:
        with temporary_files_here(), Progress(quiet=given["quiet"]) as progress:
            ending = run_until_signalled(drive(store, source, watch=progress.board, sitting=sitting))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted(
            f"run {name} is interrupted, and nothing that was paid for is lost",
            fix=f"go on with `proctor bench resume {name}`",
        ) from None
    _report(name, ending, as_json=given["as_json"])
    return InfrastructureError.exit_code if ending.summary.errors or ending.left else 0


def sitting_of(given: dict[str, Any], access: "Access") -> "Sitting":
    """What holds for this sitting, as the options say."""
    from proctor.runner.drive import Sitting  # noqa: PLC0415 - help pages need none of it
    from proctor.runner.run import Retry  # noqa: PLC0415

    return Sitting(
        access=access,
        program=given["claude_bin"],
        h2_program=given["h2_bin"],
        retry=Retry(tries=given["retries"] + 1),
        retry_errors=given.get("retry_errors", False),
        run_usd=given["max_cost"],
        image_disk=given["image_disk"],
        on_pull=pulls_of(given),
        prices=given["prices"],
    )


def pulls_of(given: dict[str, Any]) -> "OnPull | None":
    """Who says which images are being pulled or built: a line each, above the table on a terminal."""
    from proctor.cli.bench.pulls import Pulls  # noqa: PLC0415 - help pages need none of it

    return None if given["quiet"] else Pulls()


def run_until_signalled(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; when the process is told to end, first cancel the work, at a second time drop it.

    Ctrl-C is asyncio's own to handle, in the same way.
    """

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        told = False

        def stop() -> None:
            nonlocal told
            if told:
                raise KeyboardInterrupt
            told = True
            if task is not None:
                task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop)
        try:
            return await work
        finally:
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    return asyncio.run(watched())


def tell_what_is_left(name: str, endings: "Sequence[Ending]") -> None:
    """Say why a run, or the runs of a sweep, stopped before the end, and what goes on with them."""
    left, errors = sum(ending.left for ending in endings), sum(ending.summary.errors for ending in endings)
    stopped = next((ending for ending in endings if ending.stopped_by is not None), None)
    if stopped is not None and stopped.stopped_by is not None:
        note(f"stopped ({stopped.stopped_by.value}): {stopped.detail}")
    if left:
        spent = stopped is not None and stopped.stopped_by is Cause.RUN_BUDGET
        more = " --max-cost USD`, with a higher limit" if spent else "`"
        note(f"{left} answers are left; go on with `proctor bench resume {name}{more}")
    elif errors:
        note(f"try the errors again with `proctor bench resume {name} --retry-errors`")


def _report(name: str, ending: "Ending", *, as_json: bool) -> None:
    summary = ending.summary
    if as_json:
        print_json(summary)
    else:
        counted = summary.resolved + summary.unresolved
        spent = None if summary.cost_usd is None or summary.unfinished_usd is None else summary.cost_usd
        cost = "unknown" if spent is None else f"${spent + (summary.unfinished_usd or 0.0):.4f}"
        click.echo(
            f"{name}: {summary.resolved} of {counted} graded answers resolved, {summary.errors} errors, "
            f"{summary.skipped} skipped; {summary.tokens:,} tokens, cost {cost}"
        )
    tell_what_is_left(name, [ending])
