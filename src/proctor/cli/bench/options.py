"""Command-line options, made from the records that hold them, and the few that belong to the command line alone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from proctor.cli.groups import completes
from proctor.core.errors import UsageError
from proctor.core.options import OptionField, Scope, is_sweep_option, option_fields, read_options
from proctor.core.request import EvaluateRequest, RunRequest, TaskRequest

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=TaskRequest)
# What a shell offers as the value of an option; for the others, files.
_COMPLETED = {
    "agent": completes("agents"),
    "model": completes("models"),
    "runner": completes("runners"),
    "tasks": completes("tasks"),
}
_SESSION_SCOPES = frozenset({Scope.SESSION, Scope.RESUME})


class _Option(click.Option):
    """An option with older names, which are read and not shown."""

    def __init__(self, *args: Any, hidden_names: tuple[str, ...] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._hidden_names = hidden_names

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of the help page."""
        names, self.opts = self.opts, [name for name in self.opts if name not in self._hidden_names]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


class PrintedForm(click.ParamType[str]):
    """`text`, `json`, or a registered format that has a document of its own for this."""

    name = "form"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same word, once it is known."""
        from proctor.results.formats import find_format

        if value not in {"text", "json"}:
            try:
                printable = find_format(value).prints_documents
            except UsageError:
                printable = False
            if not printable:
                self.fail(f"{value!r} is neither text nor json, nor a format that can be printed", param, ctx)
        return str(value)


def _click_option(field: OptionField, taken: frozenset[str]) -> Callable[[F], F]:
    """A field of a request on the command line. It is read with the request; here it is text, or a flag.

    An older name that is among the `taken` ones belongs to another option by now.
    """
    option, older = field.option, (f"--{alias.replace('_', '-')}" for alias in field.option.aliases)
    hidden = tuple(name for name in older if name not in taken)
    settings: dict[str, Any] = {"metavar": option.metavar or None}
    text = option.flag_help or option.help
    if field.kind == "truth":
        settings = {"is_flag": True, "flag_value": not field.default, "default": None}
    else:
        if field.choices:
            settings["metavar"] = f"[{'|'.join(field.choices)}]"
        if field.default not in (None, (), {}) and "[default" not in text:
            text += f" [default: {field.default}]"
    return click.option(
        *field.flags,
        *hidden,
        field.name,
        cls=_Option,
        hidden_names=hidden,
        multiple=field.repeated,
        envvar=option.env or None,
        show_envvar=bool(option.env),
        help=text,
        shell_complete=_COMPLETED.get(field.name),
        **settings,
    )


def request_options(record: type[TaskRequest], *, only: Callable[[OptionField], bool]) -> Callable[[F], F]:
    """The options of a request, those of them that `only` lets through."""
    chosen = [field for field in option_fields(record).values() if only(field)]
    taken = frozenset(flag for field in chosen for flag in field.flags)

    def decorate(function: F) -> F:
        for field in reversed(chosen):
            function = _click_option(field, taken)(function)
        return function

    return decorate


def read_request(record: type[R], given: Mapping[str, Any], **more: Any) -> R:
    """The request that options make; `more` are values beside those of the command line.

    Raises:
        UsageError: a value is refused.
    """
    return record(**more, **read_given(record, given))


def read_given(record: type[TaskRequest], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of those options that are given."""
    fields = option_fields(record)
    if given.get("all_tasks") and any(
        given.get(name) for name, field in fields.items() if field.option.scope is Scope.SELECTION and name != "exclude"
    ):
        raise UsageError("--all cannot be combined with a task filter", fix="give one of them")
    known = {name: value for name, value in given.items() if name in fields and value not in (None, ())}
    return read_options(record, known, folder=Path.cwd(), command_line=True)


run_options = request_options(RunRequest, only=lambda field: field.option.scope is not Scope.RESUME)
sweep_options = request_options(RunRequest, only=is_sweep_option)
resume_options = request_options(
    RunRequest, only=lambda field: field.option.scope in _SESSION_SCOPES or field.option.resumable
)
evaluate_options = request_options(EvaluateRequest, only=lambda _: True)
validate_options = request_options(EvaluateRequest, only=lambda field: field.name != "cache")
parity_options = request_options(
    EvaluateRequest,
    only=lambda field: field.name not in {"suite", "repair", "repair_max_iters", "determinism_runs"},
)
_LISTED_ENVIRONMENTS = frozenset({"runner", "image", "image_map", "force_build"})
list_options = request_options(
    TaskRequest,
    only=lambda field: field.option.scope in {Scope.SOURCE, Scope.SELECTION} or field.name in _LISTED_ENVIRONMENTS,
)
benchmark_argument = click.argument(
    "benchmark", metavar="[BENCH]", required=False, shell_complete=completes("benchmarks")
)
all_option = click.option("--all", "all_tasks", is_flag=True, help="All tasks (the default).")
format_option = click.option(
    "--format",
    "form",
    type=PrintedForm(),
    metavar="[text|json|FORMAT]",
    default="text",
    show_default=True,
    help="json is the same as --json; or a registered format's own output.",
)


def document_options(function: F) -> F:
    """The options of what is printed as a document: as text, or in another form."""
    for option in (
        click.option(
            "--html", type=click.Path(path_type=Path), metavar="FILE", help="Also write one page, with charts."
        ),
        click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown instead of a table."),
        click.option("--csv", "as_csv", is_flag=True, help="Print CSV instead of a table."),
        json_option,
    ):
        function = option(function)
    return function


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
quiet_option = click.option("--quiet", is_flag=True, help="No progress on stderr.")
