"""``proctor plugin``: packages that add an agent, a benchmark or a provider of environments."""

import keyword
import re
from pathlib import Path

import click

from proctor.cli.common import OrderedGroup


@click.group(cls=OrderedGroup, no_args_is_help=True)
def command() -> None:
    """Packages that add an agent, a benchmark or a provider of environments."""


@command.command(short_help="Make the package of a plugin.")
@click.argument("kind", type=click.Choice(["agent", "benchmark", "environment"]))
@click.argument("name")
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), help="Where. [default: a folder called NAME]"
)
def new(kind: str, name: str, folder: Path | None) -> None:
    """Make a package with an agent, a benchmark or a provider of environments called NAME, and tests that pass."""
    from proctor.cli.scaffold import write_template
    from proctor.core.errors import UsageError

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "proctor":
        raise UsageError(
            f"{name!r} cannot be a plugin's name", fix="use lower-case letters, digits and _, as in my_agent"
        )
    target = folder or Path(name)
    title = "".join(part.capitalize() for part in name.split("_"))
    words = {"name": name, "Name": title, "package": f"proctor-{name.replace('_', '-')}"}
    files = write_template(f"plugin_{kind}", target, words)
    click.echo(f"made {len(files)} files in {target}; try it with: pip install -e {target} && pytest {target}")
