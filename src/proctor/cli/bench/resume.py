"""``proctor bench resume``."""

from typing import Any

import click

from proctor.cli.bench.session import make_model_access, run_and_report, session_options
from proctor.cli.output import log


@click.command()
@click.argument("run")
@click.option("--retry-errors", is_flag=True, help="Try answers again that ended in an error.")
@session_options
def command(run: str, **given: Any) -> int:
    """Go on with RUN where it stopped. No finished stage is done again, and no answer is paid for twice.

    RUN is a folder, benchmark/run-id, or a run-id that only one benchmark has; a sweep is named alike, and gone on with
    as one. With --max-cost it gets a new limit, which counts what it has spent before. Exits as `run` and `sweep` do.
    """
    from proctor.benchmarks import reopen  # noqa: PLC0415 - the help page needs none of it
    from proctor.cli.bench.sweep import run_and_report_sweep  # noqa: PLC0415
    from proctor.results import find_run, find_sweep  # noqa: PLC0415
    from proctor.runner.start import changed_versions  # noqa: PLC0415

    sweep = find_sweep(run)
    if sweep is not None:
        config = sweep.sweep().runs[0].config
        source = reopen(config.benchmark, config.source, config.split)
        return run_and_report_sweep(sweep, source, given, make_model_access(given))
    store = find_run(run)
    config = store.config()
    source = reopen(config.benchmark, config.source, config.split)
    for change in changed_versions(config, source, program=given["claude_bin"], h2_program=given["h2_bin"]):
        log(f"{change}: answers of both will be in this run")
    return run_and_report(store, source, given, make_model_access(given))
