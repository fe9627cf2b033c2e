"""``proctor sandbox``: isolated, reusable homes for agents."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NoReturn

import click

from proctor.cli.output import log, print_json, print_table
from proctor.core.errors import InfrastructureError, ProctorError, UsageError
from proctor.core.formatting import timestamp
from proctor.sandboxes import Sandboxes

NOT_FOUND = 127
NOT_EXECUTABLE = 126


@click.group(name="sandbox", no_args_is_help=False)
def command() -> None:
    """Isolated, reusable homes for agents.

    A sandbox is a whole H2_DIR under ~/.h2/sandboxes (or $PROCTOR_SANDBOXES): configuration, roles, pods and
    credentials, made from a preset. Only its credentials survive a reset.
    """


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--preset", metavar="P", default="hooks", show_default=True, help="empty, hooks, haiku, opus, or yours.")
@click.option(
    "--auth-from",
    metavar="DIR",
    help="Claude Code configuration to copy credentials from. [default: ~/.h2/claude-config/default, if there]",
)
@click.option("--model", metavar="M", help="The model of the preset's roles, instead of the preset's own.")
@click.option("--count", metavar="N", type=click.IntRange(1, 1000), help="Make NAME-1 to NAME-N, for each NAME.")
def create(names: tuple[str, ...], preset: str, auth_from: str | None, model: str | None, count: int | None) -> int:
    """Create sandboxes.

    A preset is a name, or the path of a folder (./mine). If any NAME is taken, none is made.
    """
    from proctor.sandboxes.credentials import source_directory

    wanted = names if count is None else [f"{name}-{i}" for name in names for i in range(1, count + 1)]
    source = source_directory(auth_from)
    store = _store()
    store.check_create(wanted, preset=preset, model=model, auth_from=source)

    def make(name: str) -> str:
        return f"created {name}: {store.create(name, preset=preset, model=model, auth_from=source).home}"

    return _for_each_name(wanted, make)


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(*, as_json: bool) -> None:
    """List the sandboxes.

    AUTH: valid (a token, or a key in the environment), account-only (no token), expired (refused, or run out),
    limited (usage limit reached), none. AGENTS counts those that respond now.
    """
    listed = _store().list()
    if as_json:
        print_json(listed)
        return
    print_table(
        ["NAME", "PRESET", "AUTH", "AGENTS", "CREATED"],
        [[each.name, each.preset or "?", each.auth, str(each.agents), _local_time(each.created)] for each in listed],
    )


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--preset", metavar="P", help="Change the preset. [default: the one it has]")
@click.option("--model", metavar="M", help="Change the model. [default: the one it has]")
def reset(names: tuple[str, ...], preset: str | None, model: str | None) -> int:
    """Stop all processes in sandboxes, and recreate them.

    Everything except the credentials is removed and created again from the preset.
    """
    store = _store()
    store.check_reset(names, preset=preset, model=model)

    def again(name: str) -> str:
        return f"reset {name}: preset {store.reset(name, preset=preset, model=model).preset}"

    return _for_each_name(names, again)


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def destroy(names: tuple[str, ...]) -> int:
    """Stop all that runs in sandboxes, and remove them, credentials and all."""
    store = _store()
    store.check_destroy(names)

    def remove(name: str) -> str:
        store.destroy(name)
        return f"destroyed {name}"

    return _for_each_name(names, remove)


@command.command()
@click.argument("name")
def shell(name: str) -> NoReturn:
    """Open your shell in a sandbox; its prompt shows which."""
    from proctor.sandboxes.shells import shell_command, user_shell

    sandbox = _store().get(name)
    arguments, variables = shell_command(user_shell(os.environ), sandbox.enter())
    log(f"sandbox {name} at {sandbox.home}; `exit` leaves it")
    _exec_command(arguments, variables)


@command.command(name="exec", context_settings={"allow_interspersed_args": False})
@click.argument("name")
@click.argument("arguments", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED)
def exec_(name: str, arguments: tuple[str, ...]) -> NoReturn:
    """Run one command in a sandbox.

    It takes this process's place, so input, output, signals and exit code are its own. 127: there is no such
    command. 126: it cannot be run.
    """
    words = arguments[1:] if arguments[:1] == ("--",) else arguments
    if not words:
        raise UsageError("exec needs a command", fix="as in: proctor sandbox exec b1 -- h2 list")
    sandbox = _store().get(name)
    _exec_command(list(words), sandbox.enter(words))


def _store() -> Sandboxes:
    return Sandboxes(report=log)


def _for_each_name(names: Sequence[str], action: Callable[[str], str]) -> int:
    """Do it for each name; what fails is reported, does not stop the others, and decides the exit code."""
    worst = 0
    reader_has_gone: BrokenPipeError | None = None
    for name in names:
        try:
            done = action(name)
        except ProctorError as error:
            log(f"proctor: {error.sentence}")
            worst = max(worst, error.exit_code)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            log(f"proctor: sandbox {name}: {place}{error.strerror}")
            worst = InfrastructureError.exit_code
        else:
            try:
                click.echo(done)
            except BrokenPipeError as error:
                reader_has_gone = error
    if reader_has_gone:
        raise reader_has_gone
    return worst


def _exec_command(arguments: list[str], variables: dict[str, str]) -> NoReturn:
    """Replace this process by a command."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these two, and a process keeps what it ignores when it becomes another program.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvpe(arguments[0], arguments, variables)  # noqa: S606 - the command is what the user asked for
    except (FileNotFoundError, NotADirectoryError):
        log(f"proctor: {arguments[0]}: no such command")
        sys.exit(NOT_FOUND)
    except (OSError, ValueError) as error:
        log(f"proctor: {arguments[0]}: cannot be run: {getattr(error, 'strerror', None) or error}")
        sys.exit(NOT_EXECUTABLE)


def _local_time(moment: datetime | None) -> str:
    return timestamp(moment.astimezone(), seconds=False) if moment else "?"
