"""The documentation as a site: the pages in docs/, the README as its start, and a reference made from the code.

``make docs`` runs it. zensical, which reads mkdocs.yml, builds strictly; then every link and picture of the built pages
is looked up, since zensical checks neither pictures nor what is written as HTML. One that leads nowhere fails.
"""

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import click

from proctor.cli import COMMANDS
from proctor.core.options import option_fields
from proctor.core.request import EvaluateRequest, RunRequest
from proctor.schema import RECORDS

ROOT: Final = Path(__file__).resolve().parents[1]
STAGED: Final = ROOT / "build/docs"
# What is not in docs/, and the page that it becomes.
OUTSIDE: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
}


def stage() -> None:
    """Lay out what the site is built from."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGED)
    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        linked = re.sub(r"\]\((\w+(?:\.md)?)\)", lambda found: f"]({OUTSIDE.get(found[1], found[1])})", text)
        (STAGED / page).write_text(linked, encoding="utf-8")
    reference = STAGED / "reference"
    reference.mkdir()
    (reference / "commands.md").write_text("\n".join(_commands()), encoding="utf-8")
    (reference / "options.md").write_text("\n".join(_options()), encoding="utf-8")
    (reference / "schemas.md").write_text("\n".join(_schemas()), encoding="utf-8")
    (reference / "python.md").write_text("\n".join(_python()), encoding="utf-8")


def _commands() -> Iterator[str]:
    """The help page of every command."""
    yield "# Commands\n"

    def walk(words: str, command: click.Command) -> Iterator[str]:
        context = click.Context(command, info_name=words)
        yield f"## {words}\n\n```text\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                if inner is not None:
                    yield from walk(f"{words} {name}", inner)

    for name, (module, _) in sorted(COMMANDS.items()):
        yield from walk(f"proctor {name}", importlib.import_module(module).command)


def _options() -> Iterator[str]:
    """Every option of a request: on the command line, in Python, in sweeps, in config.json."""
    for title, record in (("Options of a run", RunRequest), ("Options of an evaluation", EvaluateRequest)):
        yield f"# {title}\n\n| name | on the command line | meaning |\n|---|---|---|"
        for name, field in option_fields(record).items():
            text = field.option.help.replace("|", "\\|").replace("<", "&lt;")
            flags = ", ".join(f"`{flag}`" for flag in field.flags)
            yield f"| `{name}` | {flags} | {text} |"
        yield ""


def _schemas() -> Iterator[str]:
    """The records that have a JSON Schema."""
    yield "# JSON Schemas\n\n`proctor schema NAME` prints one.\n\n| name | what it is |\n|---|---|"
    for name, record in RECORDS.items():
        kinds = record if isinstance(record, tuple) else (record,)
        text = " ".join((kinds[0].__doc__ or "").partition("\n\n")[0].split()).replace("|", "\\|")
        yield f"| `{name}` | {text} |"


def _python() -> Iterator[str]:
    """What `import proctor` offers."""
    import inspect

    import proctor

    yield "# Python\n"
    for name in proctor.__all__:
        found = getattr(proctor, name)
        try:
            shown = f"{name}{inspect.signature(found)}" if callable(found) and not isinstance(found, type) else name
        except ValueError:
            shown = name
        text = inspect.getdoc(found) or ""
        yield f"## {name}\n\n```text\n{shown}\n\n{text}\n```\n"


class _Page(HTMLParser):
    """What a page refers to, and the places in it that can be referred to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of an element."""
        for name, value in attrs:
            if name in {"href", "src"} and value:
                self.references.append(value)
            elif name == "id" and value:
                self.places.add(value)


def broken_links(site: Path) -> list[str]:
    """The references of a site's pages to its own files and places that are not there."""
    pages = {file: _Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    broken = []
    for file, page in pages.items():
        for reference in dict.fromkeys(page.references):
            parts = urlsplit(reference)
            if parts.scheme or parts.netloc or parts.path.startswith("/"):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            place = unquote(parts.fragment)
            if not target.is_file() or (place and target in pages and place not in pages[target].places):
                broken.append(f"{file.relative_to(site)}: {reference}")
    return broken


def main() -> int:
    """Build the site; the exit code."""
    stage()
    program = Path(sys.executable).with_name("zensical")
    command = [program, "build", "--clean", "--strict", "--config-file", ROOT / "mkdocs.yml"]
    code = subprocess.run(command, check=False).returncode
    broken = broken_links((ROOT / "build/site").resolve())
    for line in broken:
        print(f"leads nowhere: {line}", file=sys.stderr)
    return code or bool(broken)


if __name__ == "__main__":
    sys.exit(main())
