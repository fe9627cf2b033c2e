"""From an argument list to an exit code: finds the command, runs it, and turns every error into one sentence."""

import errno
import importlib
import os
import signal
import sys
from typing import Final

import click

from proctor.cli import COMMANDS
from proctor.cli.output import log, redirect_to_devnull
from proctor.core.abrupt_exit import set_exit_code
from proctor.core.errors import InfrastructureError, ProctorError, UsageError, plugin_error
from proctor.core.suggestions import closest

INTERRUPTED: Final = 128 + signal.SIGINT
BUG: Final = 1
_MAX_LINE: Final = 2000
_PLUGIN_GROUPS: Final = ("proctor.benchmarks", "proctor.agents", "proctor.environments", "proctor.formats")
_MAX_DETAILS: Final = 100
_OUR_ERRNOS: Final = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
    errno.EIO,
    errno.ENAMETOOLONG,
}
_ADVICE: Final = dict.fromkeys(
    (errno.EACCES, errno.EPERM, errno.EROFS), "; use a folder of your own, or run this as the user whose it is"
)


def dispatch(arguments: list[str]) -> int:
    """Run one command; what it raises becomes a sentence on stderr and the documented exit code."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone, as in `proctor … | head`: nothing is left to say.
        redirect_to_devnull(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001 - the last fence: a traceback must not reach a user
        code = _report_error(error)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one must not end this with a traceback
        code = _print_error("interrupted", INTERRUPTED)
    try:
        sys.stdout.flush()
    except OSError:
        redirect_to_devnull(sys.stdout)  # what it could not take has been complained about, if it was not a closed pipe
    set_exit_code(code)
    return code


def _report_error(error: Exception) -> int:
    """Say what went wrong, and which exit code it has."""
    if isinstance(error, ProctorError):
        for detail in error.details[:_MAX_DETAILS]:
            log(f"  {_shortened(detail)}")
        if len(error.details) > _MAX_DETAILS:
            log(f"  and {len(error.details) - _MAX_DETAILS} more")
        return _print_error(error.sentence, error.exit_code)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        log(error.format_message())
        return UsageError.exit_code
    if isinstance(error, click.ClickException):
        return _print_error(_usage_sentence(error), UsageError.exit_code)
    if isinstance(error, click.Abort):
        return _print_error("interrupted", INTERRUPTED)
    if isinstance(error, OSError) and error.errno in _OUR_ERRNOS:
        place = f"{error.filename}: " if error.filename else ""
        kind = UsageError if error.errno == errno.ENAMETOOLONG else InfrastructureError
        advice = _ADVICE.get(error.errno, "")
        return _print_error(f"{place}{error.strerror}{advice}", kind.exit_code)
    return _report_bug(error)


def _run(arguments: list[str]) -> int:
    name, *rest = arguments
    if name not in COMMANDS:
        near = closest(name, COMMANDS)
        hint = f"did you mean `proctor {near}`?" if near else "`proctor --help` lists the commands"
        raise UsageError(f"no such command: {name!r}", fix=hint)
    module = importlib.import_module(COMMANDS[name][0])
    command: click.Command = module.command
    try:
        # Not `command.main`, which exits with 1 of its own accord when a pipe is closed.
        with command.make_context(f"proctor {name}", rest) as context:
            code = command.invoke(context)
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    return code if isinstance(code, int) else 0


def _usage_sentence(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    stop = "" if message.endswith("?") else ";"
    return f"{message}{stop} see `{context.command_path} --help`" if context else message


def _print_error(sentence: str, code: int) -> int:
    log(f"proctor: {_shortened(sentence)}")
    return code


def _shortened(text: str) -> str:
    """A line for a person, also where a name or a value in it is a page long."""
    half = _MAX_LINE // 2  # what is wrong stands at its end
    return text if len(text) <= _MAX_LINE else f"{text[:half]}…{text[-half:]}"


def _report_bug(error: Exception) -> int:
    if os.environ.get("PROCTOR_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    whose = f"the plugin {plugin}" if (plugin := _plugin_of(error)) else "Proctor"
    sentence = f"internal error ({plugin_error(error)}); this is a bug in {whose}: PROCTOR_TRACEBACK=1 shows where"
    return _print_error(sentence, BUG)


def _plugin_of(error: Exception) -> str | None:
    """The package of the plugin in which an exception was raised, or which was called on the way there."""
    import traceback

    from proctor.core.plugins import entry_points

    entries = [entry for group in _PLUGIN_GROUPS for entry in entry_points(group)]
    packages = {entry.module.partition(".")[0] for entry in entries} - {"proctor"}
    called = [
        str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    return next((name for name in reversed(called) if name in packages), None)
