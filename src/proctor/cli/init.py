"""``proctor init``: a folder to start with."""

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def command(folder: Path) -> None:
    """Make a FOLDER with a suite of one task, a sweep file, and a script that runs both without a key."""
    from proctor.cli.scaffold import folder_name, write_templates

    files = write_templates({"project": folder, "suite": folder / "suite"}, {"name": folder_name(folder)})
    script = folder / "run.sh"
    click.echo(f"made {len(files)} files in {folder}; run {script if folder != Path() else f'./{script}'}")
