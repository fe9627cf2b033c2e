"""What `run` and `resume` have in common: a sitting with its progress, its signals, and what is said at its end."""

import asyncio
import os
import signal
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proctor.cli.bench.options import POSITIVE_NUMBER, image_disk_option
from proctor.cli.output import log, print_json
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError, Interrupted

if TYPE_CHECKING:
    from proctor.core.benchmark import Benchmark
    from proctor.results import RunStore
    from proctor.runner.models import ModelAccess
    from proctor.runner.session import OnPull, SessionOptions, SessionResult

T = TypeVar("T")


def session_options(function: Any) -> Any:
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
            type=POSITIVE_NUMBER,
            metavar="USD",
            help="What the whole run, or the whole sweep, may cost.",
        ),
    ):
        function = option(function)
    return function


def make_model_access(given: dict[str, Any]) -> "ModelAccess":
    """How the provider is reached, as options and environment say."""
    from proctor.core.errors import UsageError  # noqa: PLC0415
    from proctor.runner.models import ModelAccess  # noqa: PLC0415 - help pages need none of it
    from proctor.sandboxes.credentials import source_directory  # noqa: PLC0415

    if not given["own_login"]:
        if given["auth_from"] is not None:
            raise UsageError("--auth-from names a login that is not used", fix="give --own-login too")
        return ModelAccess.from_environment(os.environ)
    login = source_directory(given["auth_from"])
    if login is None:
        raise UsageError("there is no login in the usual place", fix="say where it is with --auth-from DIR")
    return ModelAccess.from_environment(os.environ, login=login)


def cost_bound_text(bound: float | None, *, options: str) -> str:
    """The most that something can cost, in words; `options` are what bounds it."""
    if bound is None:
        return f"not bounded: give {options}"
    return f"${bound:.2f}, and the requests under way when it is reached" if bound else "nothing: no model is asked"


def run_and_report(store: "RunStore", source: "Benchmark", given: dict[str, Any], access: "ModelAccess") -> int:
    """Go on with a run and report how the sitting ended."""
    from proctor.cli.bench.progress import ProgressDisplay  # noqa: PLC0415 - help pages need none of it
    from proctor.runner.scratch import tempfiles_in_scratch  # noqa: PLC0415
    from proctor.runner.session import run_session  # noqa: PLC0415

    name = f"{store.folder.parent.name}/{store.run_id}"
    sitting = make_session_options(given, access)
    try:
        with tempfiles_in_scratch(), ProgressDisplay(quiet=given["quiet"]) as progress:
            ending = run_until_signalled(
                run_session(store, source, make_observer=progress.make_observer, options=sitting)
            )
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted(
            f"run {name} is interrupted, and nothing that was paid for is lost",
            fix=f"go on with `proctor bench resume {name}`",
        ) from None
    _print_summary(name, ending, as_json=given["as_json"])
    return InfrastructureError.exit_code if ending.summary.errors or ending.trials_left else 0


def make_session_options(given: dict[str, Any], access: "ModelAccess") -> "SessionOptions":
    """What holds for this sitting, as the options say."""
    from proctor.runner.session import SessionOptions  # noqa: PLC0415 - help pages need none of it
    from proctor.runner.trial import TrialRetry  # noqa: PLC0415

    return SessionOptions(
        access=access,
        program=given["claude_bin"],
        h2_program=given["h2_bin"],
        retry=TrialRetry(max_attempts=given["retries"] + 1),
        retry_errors=given.get("retry_errors", False),
        max_run_usd=given["max_cost"],
        image_disk=given["image_disk"],
        on_pull=make_pull_reporter(given),
        prices=given["prices"],
    )


def make_pull_reporter(given: dict[str, Any]) -> "OnPull | None":
    """Who says which images are being pulled or built: a line each, above the table on a terminal."""
    from proctor.cli.bench.pull_progress import PullReporter  # noqa: PLC0415 - help pages need none of it

    return None if given["quiet"] else PullReporter()


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


def report_trials_left(name: str, results: "Sequence[SessionResult]") -> None:
    """Say why a run, or the runs of a sweep, stopped before the end, and what goes on with them."""
    left, errors = sum(ending.trials_left for ending in results), sum(ending.summary.errors for ending in results)
    stopped = next((ending for ending in results if ending.stopped_by is not None), None)
    if stopped is not None and stopped.stopped_by is not None:
        log(f"stopped ({stopped.stopped_by.value}): {stopped.detail}")
    if left:
        spent = stopped is not None and stopped.stopped_by is Cause.RUN_BUDGET
        more = " --max-cost USD`, with a higher limit" if spent else "`"
        log(f"{left} answers are left; go on with `proctor bench resume {name}{more}")
    elif errors:
        log(f"try the errors again with `proctor bench resume {name} --retry-errors`")


def _print_summary(name: str, result: "SessionResult", *, as_json: bool) -> None:
    summary = result.summary
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
    report_trials_left(name, [result])
