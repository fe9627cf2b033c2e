"""``proctor plugin``: packages that add an agent, a benchmark or a provider of environments."""

import keyword
import re
from pathlib import Path

import click

from proctor.cli.groups import OrderedGroup


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
    import sys
    from importlib.util import find_spec

    from proctor.cli.scaffold import write_templates
    from proctor.core.errors import UsageError

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "proctor":
        raise UsageError(
            f"{name!r} cannot be a plugin's name", fix="use lower-case letters, digits and _, as in my_agent"
        )
    if name in {"tests", "conftest", *sys.stdlib_module_names} or find_spec(name) is not None:
        raise UsageError(f"there is a Python module {name!r} already", fix="choose another name")
    _check_not_taken(kind, name)
    target = folder or Path(name)
    title = "".join(part.capitalize() for part in name.split("_"))
    words = {"name": name, "Name": title, "package": f"proctor-{name.replace('_', '-')}"}
    files = write_templates({f"plugin_{kind}": target}, words)
    click.echo(f"made {len(files)} files in {target}; try it with: pip install -e {target} && pytest {target}")


def _check_not_taken(kind: str, name: str) -> None:
    """See that a plugin would not stand for something else that is called the same."""
    from proctor.benchmarks.suites.load import shipped_suites
    from proctor.core.errors import UsageError
    from proctor.core.plugins import entry_points

    taken = {entry.name for entry in entry_points(f"proctor.{kind}s")}
    if name in taken or (kind == "benchmark" and name in shipped_suites()):
        article = "a" if kind == "benchmark" else "an"
        raise UsageError(f"there is {article} {kind} {name!r} already", fix="choose another name")
