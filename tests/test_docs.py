"""The pages for users say what is true: of links, commands, options, names, variables and tables."""

import ast
import importlib
import inspect
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml
from jsonschema import Draft202012Validator

import proctor
from pages import PAGES, Page
from paths import REPOSITORY
from proctor.analysis.gate import MEASURES
from proctor.api import EvaluateOptions, ResumeOptions, RunOptions
from proctor.cli import COMMANDS, help_text
from proctor.cli.schema import schema_names
from proctor.core.model_aliases import MODEL_ALIASES
from proctor.schema import json_schema

# Options of other programs, each where a page says so.
FOREIGN: Final = {
    "docs/agents.md": {"--print", "--setting-sources", "--strict-mcp-config"},
    "docs/benchmarks/swe-without-docker.md": {"--no-deps", "--no-build-isolation"},
    "docs/workspaces.md": {"--3way", "--ignore-whitespace", "--reject"},
    "docs/x07.md": {"--no-fail-fast"},
}
# Set by Proctor for programs of its own, inside environments and shells; nobody else sets or reads them.
INTERNAL: Final = {
    *("PROCTOR_CLAUDE", "PROCTOR_H2", "PROCTOR_MODEL_URL"),
    *("PROCTOR_PRIVATE", "PROCTOR_PYTHONPATH", "PROCTOR_ZDOTDIR"),
}
VARIABLE: Final = re.compile(r"PROCTOR_[A-Z][A-Z0-9_]*")
EVERYWHERE: Final = "\n".join(page.text for page in PAGES)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def page_at(name: str) -> Page:
    return Page(REPOSITORY / name)


@cache
def commands() -> dict[str, click.Command]:
    """Every command by its words, groups left out."""

    def walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield words, command
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(f"{words} {name}", inner)

    table = {name: importlib.import_module(module).command for name, (module, _) in COMMANDS.items()}
    return {words: command for name, top in table.items() for words, command in walk(f"proctor {name}", top)}


@cache
def sources() -> dict[Path, bytes]:
    """The files of the package; those of the suites are tasks, not our code."""
    package = REPOSITORY / "src/proctor"
    return {
        Path(folder, name): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(package)
        if "__pycache__" not in folder and not folder.startswith(f"{package}/suites")
        for name in names
    }


def options_of(command: click.Command) -> set[str]:
    named = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {"--help"}.union(*({*option.opts, *option.secondary_opts} for option in named))


def typed_lines(page: Page) -> Iterator[str]:
    """What a reader would type, from the blocks."""
    for block in page.blocks(""):
        yield from re.findall(r"^(?: {4})?(proctor(?: .*)?)$", block, re.MULTILINE)
    for block in page.blocks("console"):
        yield from re.findall(r"^.*\$ (proctor(?: .*)?)$", block, re.MULTILINE)


def mentions(page: Page) -> Iterator[str]:
    """Commands in the prose: with what they are given, or by their names alone."""
    yield from (span for span in page.spans if re.match(r"proctor( [a-z]|$)", span))


def named_command(words: list[str]) -> tuple[click.Command | None, list[str]]:
    """The command that a line names, and the words behind it; None for a group or for Proctor itself.

    Raises:
        click.UsageError: there is no such command.
    """
    for count in (3, 2):
        command = commands().get(" ".join(words[:count]))
        if command is not None:
            return command, words[count:]
    groups = {name.rsplit(" ", 1)[0] for name in commands()}
    name = next((name for count in (2, 1) if (name := " ".join(words[:count])) in groups), None)
    rest = words[len(name.split()) :] if name else words
    if any(not word.startswith("-") for word in rest):
        raise click.UsageError("there is no such command")
    return None, rest


def check_line(line: str, *, whole: bool) -> None:
    """Take a line as the shell and click do; one that shows alternatives, for the options in it.

    Args:
        whole: nothing that must be given may be left out.

    Raises:
        click.ClickException, ValueError: it cannot be taken.
    """
    command, rest = named_command(shlex.split(line, comments=True))
    if command is None or not (rest or whole):
        return
    if not re.search(r"[\[\]|…]|\.\.\.", " ".join(rest)):
        parse(command, rest)
        return
    ours = rest[: rest.index("--")] if "--" in rest else rest
    for option in (option for word in ours for option in re.findall(r"^\[?(--[a-z0-9-]+)", word)):
        if option not in options_of(command):
            raise click.NoSuchOption(option)


def parse(command: click.Command, words: list[str]) -> None:
    """As click does it, but that no file need be there and nothing is run.

    Raises:
        click.UsageError: it cannot be parsed.
    """
    context = click.Context(command, **command.context_settings)
    values, left, _ = command.make_parser(context).parse_args(args=list(words))
    if left:
        raise click.UsageError(f"unexpected: {left}")
    for parameter in command.params:
        if not isinstance(parameter.type, click.Path):
            parameter.handle_parse_result(context, values, [])
        elif parameter.required and values.get(parameter.name or "") is None:
            raise click.MissingParameter(param=parameter, ctx=context)


@each_page
def test_links_lead_somewhere(page: Page) -> None:
    for link in page.links:
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.path if not path else page.path.parent / path
        assert target.exists(), link
        if anchor:
            assert anchor in Page(target).anchors, link


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [page_at("README.md")]
    while waiting:
        page = waiting.pop()
        if page.path not in reached:
            reached.add(page.path)
            linked = [(page.path.parent / link.partition("#")[0]).resolve() for link in page.links]
            waiting += [Page(path) for path in linked if path.suffix == ".md"]
    assert {page.path for page in PAGES} == reached


def test_pages_that_the_code_names_are_there() -> None:
    for file, content in sources().items():
        for name in re.findall(rb"\bdocs/[\w/-]+\.md", content):
            assert (REPOSITORY / name.decode()).is_file(), f"{file} names it"


@each_page
def test_command_lines_can_be_given_as_they_are_written(page: Page) -> None:
    lines = [*((line, True) for line in typed_lines(page)), *((line, False) for line in mentions(page))]
    for line, whole in lines:
        try:
            check_line(line, whole=whole)
        except (click.ClickException, ValueError) as error:
            said = error.format_message() if isinstance(error, click.ClickException) else error
            pytest.fail(f"{line}: {said}")


@each_page
def test_options_in_the_prose_are_options_of_some_command(page: Page) -> None:
    ours = set().union(*map(options_of, commands().values()))
    named = {option for span in page.spans if span.startswith("--") for option in re.findall(r"--[a-z0-9][\w-]*", span)}
    assert named - ours == FOREIGN.get(page.name, set())


def test_every_command_and_every_option_is_explained_in_a_page_and_by_its_own_help() -> None:
    lines = [line for page in PAGES for line in (*typed_lines(page), *mentions(page))]
    shown = {id(named_command(shlex.split(line, comments=True))[0]) for line in lines}
    for name, command in commands().items():
        assert id(command) in shown, name
        assert command.help, name
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.help, f"{name} {parameter.opts}"
                assert any(re.search(rf"{option}\b(?!-)", EVERYWHERE) for option in parameter.opts), parameter.opts


@each_page
def test_targets_of_make_are_in_the_makefile(page: Page) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shown = [*page.spans, *(line for block in page.blocks("") for line in block.splitlines())]
    named = {word for text in shown for word in re.findall(r"(?:^|; | … )make ([a-z-]+)", text)}
    assert named <= targets


@each_page
def test_python_in_the_pages_compiles_and_uses_what_there_is(page: Page) -> None:
    for block in page.blocks("python"):
        tree = compile(block, page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("proctor"):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "proctor":
                assert node.attr in proctor.__all__, ast.unparse(node)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("proctor."):
                taken = arguments_of(getattr(proctor, ast.unparse(node.func).removeprefix("proctor.")))
                assert {str(keyword.arg) for keyword in node.keywords} <= taken, ast.unparse(node)


def arguments_of(function: Any) -> set[str]:
    """The names that may be given to a function, those of its options among them."""
    found: set[str] = set()
    for name, parameter in inspect.signature(function).parameters.items():
        options = parameter.annotation.__args__[0] if parameter.kind is parameter.VAR_KEYWORD else None
        found |= set(options.__annotations__) if options is not None else {name}
    return found


def test_what_python_can_be_told_has_the_command_lines_name_or_is_in_the_page() -> None:
    page = page_at("docs/python.md")
    words = {word for span in page.spans for word in re.findall(r"[a-z_0-9]+", span)}
    for options, name in ((RunOptions, "run"), (ResumeOptions, "resume"), (EvaluateOptions, "eval")):
        known = options_of(commands()[f"proctor bench {name}"])
        own = {option for option in options.__annotations__ if f"--{option.replace('_', '-')}" not in known}
        assert own <= words
    assert {name for name in words if hasattr(proctor, name) and callable(getattr(proctor, name))} >= {
        *("run", "resume", "sweep", "resume_sweep", "load_results", "evaluate", "validate")
    }


def test_schemas_that_pages_name_are_shipped() -> None:
    known, versions = set(schema_names()), set()
    for name in known:
        text = (REPOSITORY / f"src/proctor/schemas/{name}.schema.json").read_text(encoding="utf-8")
        versions |= set(re.findall(r"proctor\.[a-z_]+@\d+", text))
    for page in PAGES:
        named = {line.split()[2] for line in mentions(page) if re.match(r"proctor schema \S", line)}
        for sentence in re.findall(r"JSON Schema(.*?\.)\s", page.prose, re.DOTALL):
            named |= set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", sentence))
        assert named - {"NAME"} <= known, page.name
        assert set(re.findall(r"\bproctor\.[a-z_]+@\d+", page.text)) <= versions, page.name


@each_page
def test_examples_of_data_are_well_formed_and_fit_their_schemas(page: Page) -> None:
    for block in page.blocks("toml"):
        tomllib.loads(block)
    for block in page.blocks("yaml"):
        yaml.safe_load(block)
    for block in page.blocks("json"):
        for document in documents_in(block):
            kind = re.fullmatch(r"proctor\.([a-z_]+)@\d+", str(document.get("schema_version", "")))
            name = kind[1].replace("_", "-") if kind else "prediction" if "patch_kind" in document else None
            if name:
                Draft202012Validator(json_schema(name)).validate(document)


def documents_in(block: str) -> list[Any]:
    """One document, or one a line."""
    try:
        return [json.loads(block)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in block.splitlines()]


def test_variables_of_ours_are_documented_and_those_documented_are_ours() -> None:
    used = {"PROCTOR_TESTS_COMPLETE"}  # tests/conftest.py
    for file, content in sources().items():
        if b"PROCTOR_" not in content:
            continue
        texts = [content.decode()]
        if file.suffix == ".py":
            nodes = ast.walk(ast.parse(content))
            texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        for text in texts:
            in_shell = re.findall(rf"(?:\$\{{?|export )({VARIABLE.pattern})", text)
            used |= {text} if VARIABLE.fullmatch(text) else set(in_shell)
    assert set(VARIABLE.findall(EVERYWHERE)) == used - INTERNAL
    assert used >= INTERNAL


def test_the_readme_lists_the_benchmarks_and_exit_codes_that_there_are() -> None:
    readme = page_at("README.md").text
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = set(re.findall(r"^\| .*?`(\w+)`\]\(docs/benchmarks/", readme, re.MULTILINE))
    assert listed | {"re_bench_demo"} == set(project["entry-points"]["proctor.benchmarks"])
    codes = set(re.findall(r"^\| (\d+) \|", readme, re.MULTILINE))
    assert codes == set(re.findall(r"\b(\d+) [a-z]", help_text().partition("Exit codes:")[2]))


def test_the_page_on_suites_lists_the_instances_that_there_are() -> None:
    page = page_at("docs/suites.md").text
    folder = REPOSITORY / "src/proctor/suites/core"
    for name, file in (("core", "suite.json"), ("core-mini", "mini.json")):
        count = len(json.loads((folder / file).read_text(encoding="utf-8"))["instances"])
        assert re.search(rf"^\| `{name}` \| `{file}` \| {count}\b", page, re.MULTILINE)
    told = dict(re.findall(r"^\| `(\w+)` \| \w+ \| (\w+) \|", page, re.MULTILINE))
    instances = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("instances/*/instance.json")]
    assert told == {instance["instance_id"]: instance["difficulty"] for instance in instances}


def test_formats_measures_and_short_names_of_models_are_all_told() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall(
        r"^\| (`.*?) \|", page_at("docs/trajectories.md").text.partition("# Other tools")[2], re.MULTILINE
    )
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == set(
        project["entry-points"]["proctor.formats"]
    )
    assert set(MEASURES) <= set(page_at("docs/reports.md").spans)
    assert set(MODEL_ALIASES) <= set(page_at("docs/running.md").spans)
