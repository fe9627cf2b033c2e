"""From an argument list to an exit code: finds the command, runs it, and turns every error into one sentence."""

import difflib
import errno
import importlib
import os
import signal
import sys
import traceback
from typing import Final

import click

from proctor.cli import COMMANDS
from proctor.core.errors import InfrastructureError, ProctorError, UsageError
from proctor.core.text import visible

INTERRUPTED: Final = 128 + signal.SIGINT
BUG: Final = 1
_OUR_ERRNOS: Final = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
    errno.EIO,
}


def dispatch(arguments: list[str]) -> int:
    """Run one command; what it raises becomes a sentence on stderr and the documented exit code."""
    try:
        return _run(arguments)
    except ProctorError as error:
        for detail in error.details:
            sys.stderr.write(f"  {visible(detail)}\n")
        return _complain(error.sentence, error.exit_code)
    except click.ClickException as error:
        return _complain(_usage_sentence(error), UsageError.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, as in `proctor … | head`: nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        if error.errno == errno.ENAMETOOLONG:
            return _complain(f"{place}{error.strerror}", UsageError.exit_code)
        if error.errno not in _OUR_ERRNOS:
            return _bug(error)
        return _complain(f"{place}{error.strerror}", InfrastructureError.exit_code)
    except Exception as error:  # noqa: BLE001 - the last fence: a traceback must not reach a user
        return _bug(error)


def _run(arguments: list[str]) -> int:
    name, *rest = arguments
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean `proctor {near[0]}`?" if near else "`proctor --help` lists the commands"
        raise UsageError(f"no such command: {name!r}", fix=hint)
    module = importlib.import_module(COMMANDS[name][0])
    command: click.Command = module.command
    code = command.main(args=rest, prog_name=f"proctor {name}", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _usage_sentence(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message}; see `{context.command_path} --help`" if context else message


def _complain(sentence: str, code: int) -> int:
    sys.stderr.write(f"proctor: {visible(sentence)}\n")
    return code


def _bug(error: Exception) -> int:
    if os.environ.get("PROCTOR_TRACEBACK"):
        traceback.print_exception(error)
    detail = " ".join(f"{type(error).__name__}: {error}".split())
    return _complain(f"internal error ({detail}); this is a bug in Proctor: PROCTOR_TRACEBACK=1 shows where", BUG)
