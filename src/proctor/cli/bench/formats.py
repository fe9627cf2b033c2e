"""What `export`, `import` and `score` do: runs and reports in other tools' formats."""

from pathlib import Path

import click

from proctor.analysis.score import score_file, score_table
from proctor.cli.bench.report_output import log_unreadable
from proctor.cli.output import log, print_json, print_table
from proctor.core.errors import UsageError
from proctor.report.cli_records import ExportedRun, FormatList, ImportedRun
from proctor.results import find_run
from proctor.results.formats import (
    ExportOptions,
    ExportResult,
    ImportOptions,
    export_run,
    export_suite,
    find_format,
    formats,
    import_run,
)


def export(
    run: str | None,
    form: str | None,
    out: Path | None,
    name: str | None,
    *,
    image: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """``proctor bench export``."""
    if form is None:
        known = formats()
        if run is not None:
            raise UsageError("the format is missing", fix=f"give --format {'|'.join(known)}")
        if as_json:
            print_json(FormatList(formats=known))
        else:
            print_table(["FORMAT", "DESCRIPTION"], [[key, about] for key, about in known.items()])
        return
    found = find_format(form)
    options = ExportOptions(name=name, image=image)
    if found.exports_tasks:
        if run is None:
            raise UsageError("the suite is missing", fix="give the path of a suite, or a shipped suite's name")
        target = out or Path(f"{Path(run).stem}-{form}{found.suffix}")
        exported = export_suite(run, found, target.absolute(), options, replace=force)
        _print_exported(exported, target, as_json=as_json)
        return
    if run is None:
        raise UsageError("the run is missing", fix="give a folder, benchmark/run-id, or a run-id that is unique")
    store = find_run(run)
    target = out or Path(f"{store.folder.parent.name}-{store.run_id}-{form}{found.suffix}")
    exported = export_run(store, found, target.absolute(), options, replace=force)
    log_unreadable([store])
    _print_exported(exported, target, as_json=as_json)


def _print_exported(exported: ExportResult, target: Path, *, as_json: bool) -> None:
    for sentence in exported.left_out:
        log(sentence)
    if as_json:
        print_json(ExportedRun(target=str(target), files=exported.files, left_out=exported.left_out))
    else:
        click.echo(str(target))


def import_(
    source: Path, form: str, benchmark: str | None, agent: str | None, model: str | None, *, as_json: bool
) -> None:
    """``proctor bench import``."""
    imported = find_format(form).read(source, ImportOptions(benchmark=benchmark, agent=agent, model=model))
    store = import_run(imported)
    name = f"{store.folder.parent.name}/{store.run_id}"
    if as_json:
        print_json(ImportedRun(run=name, folder=str(store.folder), tasks=len(store.config().tasks)))
    else:
        click.echo(name)
        log(f"stored in {store.folder}")


def print_score(report: str, *, as_json: bool) -> None:
    """``proctor bench score``."""
    summary = score_file(report)
    if as_json:
        print_json(summary)
    else:
        click.echo(score_table(summary), nl=False)
