"""``proctor schema``: prints the JSON Schema of a record."""

import importlib.resources

import click

from proctor.core.errors import UsageError

SUFFIX = ".schema.json"
_FORMER_NAMES = {"fetched": "dataset-info", "health": "task-health", "shown-run": "run-details"}


def schema_names() -> list[str]:
    """The names of the schemas that are shipped."""
    folder = importlib.resources.files("proctor") / "schemas"
    return sorted(item.name.removesuffix(SUFFIX) for item in folder.iterdir() if item.name.endswith(SUFFIX))


@click.command()
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print the JSON Schema of the record NAME; without NAME, list the names."""
    names = schema_names()
    if name is None:
        click.echo("\n".join(names))
        return
    name = _FORMER_NAMES.get(name, name)
    if name not in names:
        raise UsageError(f"no schema is called {name!r}", fix=f"choose one of: {', '.join(names)}")
    file = importlib.resources.files("proctor") / "schemas" / f"{name}{SUFFIX}"
    click.echo(file.read_text(encoding="utf-8"), nl=False)
