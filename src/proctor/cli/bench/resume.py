"""``proctor bench resume``."""

from typing import Any

import click

from proctor.cli.bench.run import sitting_options
from proctor.cli.bench.sitting import sit


@click.command()
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print the run's summary as JSON.")
@sitting_options
def command(run: str, **given: Any) -> int:
    """Go on with RUN where it stopped. No finished stage is done again, and no answer is paid for twice."""
    import msgspec  # noqa: PLC0415 - the help page needs none of it

    from proctor.benchmarks import reopen  # noqa: PLC0415
    from proctor.results import find_run  # noqa: PLC0415

    store = find_run(run)
    config = store.config()
    if given["max_cost"] is not None:
        budget = msgspec.structs.replace(config.budget, run_usd=given["max_cost"])
        config = msgspec.structs.replace(config, budget=budget)
        store.write_config(config)
    return sit(store, config, reopen(config.benchmark, config.source), given)
