"""The command line: parse, call, print; no logic.

Importing click costs three times what starting Python does, so the top level is a table of names and sentences:
``proctor --help`` prints it, and a command's module is imported when that command is used.
"""

import os
import sys
from typing import Final

COMMANDS: Final = {
    "bench": ("proctor.cli.bench", "Benchmarks, their tasks, and what agents make of them."),
    "doctor": ("proctor.cli.doctor", "What this machine can and cannot do, and how to fix it."),
    "sandbox": ("proctor.cli.sandbox", "Isolated, reusable homes for agents."),
    "schema": ("proctor.cli.schema", "The JSON Schema of a record."),
    "view": ("proctor.cli.view", "The results in a browser."),
}


def help_text() -> str:
    """The page that ``proctor --help`` prints."""
    width = max(map(len, COMMANDS)) + 2
    rows = "\n".join(f"  {name:{width}}{sentence}" for name, (_, sentence) in sorted(COMMANDS.items()))
    return f"""\
Usage: proctor COMMAND [OPTIONS] [ARGS]...

  Runs standard coding benchmarks against coding agents, and says honestly
  which configuration is better and what it costs.

Commands:
{rows}

Options:
  --version  Print the version.
  --help     Print this page; also for each command.

Exit codes: 0 done, 2 wrong usage or unreadable input, 10 a gate does not hold,
12 infrastructure error, 20 invalid suite or data, 130 interrupted, 1 a bug in
Proctor.
"""


def main() -> None:
    """The console script."""
    _open_streams()
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in {"--help", "-h", "help"}:
        sys.stdout.write(help_text())
        return
    if arguments[0] == "--version":
        from proctor import __version__  # noqa: PLC0415 - a command pays only for what it uses

        sys.stdout.write(f"proctor {__version__}\n")
        return
    from proctor.cli.dispatch import dispatch  # noqa: PLC0415 - likewise

    sys.exit(dispatch(arguments))


def _open_streams() -> None:
    """Where we are started with streams closed (``2>&-``), no file that is opened later may take their places."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for good
