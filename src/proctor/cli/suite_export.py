"""``proctor suite export``: a suite's tasks in another project's format."""

import json
from pathlib import Path

import click

from proctor.cli.output import log
from proctor.core.files import write_atomic
from proctor.core.formatting import plural


@click.command(short_help="Write a suite's tasks in another project's format.")
@click.argument("suite")
@click.option(
    "--format", "form", type=click.Choice(["swe-bench"]), default="swe-bench", show_default=True, help="Whose format."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write: JSON lines.")
def command(suite: str, form: str, out: Path) -> int:
    """Write the tasks of SUITE, which was mined, as rows of SWE-bench's data sets."""
    from proctor.mining.export import swe_bench_rows

    rows = swe_bench_rows(suite)
    write_atomic(out.absolute(), "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    log(f"{out}: {plural(len(rows), 'row')} in the format {form}")
    return 0
