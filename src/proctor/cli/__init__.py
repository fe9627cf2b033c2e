"""The command line: parse, call, print; no logic.

Importing click costs three times what starting Python does, so the top level is a table of names and sentences:
``proctor --help`` prints it, and a command's module is imported when that command is used. The help pages of commands
are shipped as files (`proctor.cli.help_pages` writes them), and printed without click where the terminal is wide
enough.
"""

import os
import sys
from typing import Final

_INFRASTRUCTURE: Final = 12
_INTERRUPTED: Final = 130
HELP_WIDTH: Final = 80  # of the shipped pages; click makes none wider
COMPLETE_VARIABLE: Final = "_PROCTOR_COMPLETE"  # set by the shell's script
COMMANDS: Final = {
    "bench": ("proctor.cli.bench", "List, run, grade and compare benchmarks."),
    "cluster": ("proctor.cli.cluster", "Inspect, prepare and drain the nodes of a Ray cluster."),
    "completion": ("proctor.cli.completion", "Print the shell completion script."),
    "doctor": ("proctor.cli.doctor", "Check what this machine can run, and how to fix the rest."),
    "init": ("proctor.cli.init", "Create a starter folder: a suite, a sweep, a script."),
    "plugin": ("proctor.cli.plugin", "Create a package that adds an agent, a benchmark or an environment."),
    "runs": ("proctor.cli.runs", "List, rename, tag, archive and delete runs."),
    "sandbox": ("proctor.cli.sandbox", "Manage isolated, reusable homes for agents."),
    "schema": ("proctor.cli.schema", "Print the JSON Schema of a record."),
    "suite": ("proctor.cli.suite", "Create suites: by hand, or from a repository's history."),
    "view": ("proctor.cli.view", "Show the results in a browser."),
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
Proctor or in a plugin.
"""


def main() -> None:
    """The console script."""
    try:
        _use_utf8()
        _open_streams()
        arguments = sys.argv[1:]
        if COMPLETE_VARIABLE in os.environ:
            from proctor.cli.completion import print_words

            code = print_words(os.environ[COMPLETE_VARIABLE])
        elif not arguments or arguments[0] in {"--help", "-h", "help"}:
            code = _print_page(help_text())
        elif arguments[0] == "--version":
            from proctor.core import VERSION

            code = _print_page(f"proctor {VERSION}\n")
        elif arguments[-1] == "--help" and (page := _shipped_page(arguments[:-1])):
            code = _print_page(page)
        else:
            from proctor.cli.dispatch import dispatch

            code = dispatch(arguments)
    except KeyboardInterrupt:
        # During imports: `dispatch` says so of everything later.
        _ignore_interrupts()
        _complain("interrupted")
        code = _INTERRUPTED
    sys.exit(code)


def help_file(words: list[str]) -> str:
    """Where the help page of a command is shipped."""
    return os.path.join(os.path.dirname(__file__), "help", f"{'.'.join(words)}.txt")  # noqa: PTH118, PTH120 - pathlib takes longer than the rest


def _shipped_page(words: list[str]) -> str | None:
    """The help page of a command, if there is one for it and the terminal is wide enough."""
    if not all(word.isascii() and word.replace("-", "").isalpha() for word in words) or _columns() < HELP_WIDTH:
        return None
    try:
        with open(help_file(words), encoding="utf-8") as file:  # noqa: PTH123 - likewise
            return file.read()
    except OSError:
        return None


def _columns() -> int:
    """The width of the terminal, as `shutil` says it."""
    try:
        columns = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        columns = 0
    if columns > 0:
        return columns
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or HELP_WIDTH
    except (OSError, ValueError):
        return HELP_WIDTH


def _print_page(text: str) -> int:
    """Print a text without what commands need; the exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python would write the rest when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        _complain(error.strerror or "cannot write")
        return _INFRASTRUCTURE
    return 0


def _complain(sentence: str) -> None:
    try:
        sys.stderr.write(f"proctor: {sentence}\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody is left to be told; the exit code says it


def _ignore_interrupts() -> None:
    """What is left to do takes a moment; a second Ctrl-C must not end it with a traceback."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _use_utf8() -> None:
    """Start anew in UTF-8 mode where the locale makes Python read file names, and print, in another encoding.

    Records and their files are UTF-8 in any locale.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - the same program


def _open_streams() -> None:
    """Where we are started with streams closed (``2>&-``), no file that is opened later may take their places."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for good
