"""Success commands with another expectation, or another question: a correct setup fails them.

No task comes with an oracle, so only changes are made that no set-up can pass: a text that is nowhere, a host, a file,
a table or a sub-command that does not exist. Whatever passes them does not depend on the set-up.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

from proctor.core.record import Record

AlteredPart = Literal["answer", "question"]

# Each rule: a pattern with the part `old`, and what becomes of it. `{token}` is a word that is nowhere.
_QUOTED: Final = r"""(?:"[^"]*"|'[^']*'|[^\s'"|;&)]+)"""
_ANSWERS: Final = (
    # What a search looks for, unless its absence is what counts.
    (rf"(?<!! )\bgrep (?:-[a-uw-zA-Z]+ )*(?P<old>{_QUOTED})", "{token}"),
    # A status of HTTP that no server sends.
    (r"\[ \$code -eq (?P<old>\d+) \]", "{number}"),
    (r"\*(?P<old>\w+)\*\) echo (?=\"Setup successful)", "{token}"),
    (r"'(?P<old>\w+)' in dir\(", "{token}"),
)
_QUESTIONS: Final = (
    (r"\bcurl\b[^|;&]*--unix-socket (?P<old>\S+)", "{old}.{token}"),
    # Names below `.invalid` stand for no host. With a socket, the host's name says nothing.
    (r"\bcurl\b(?![^|;&]*--unix-socket)[^|;&]*\bhttps?://(?P<old>localhost|127\.0\.0\.1)\b", "{token}.invalid"),
    (r"\bssh\b[^|;&]*? (?P<old>localhost|127\.0\.0\.1)\b", "{token}.invalid"),
    (r"\bredis-cli\b[^|;&)]* GET (?P<old>[\w:.-]+)", "{old}.{token}"),
    (r"\b(?:psql|mysql|sqlite3)\b[^|;&]*?\bFROM (?P<old>[\w.]+)", "t{token}"),
    (r"\bmysql\b[^|&]*?\bUSE (?P<old>\w+)", "d{token}"),
    (r"\bdb\.(?P<old>\w+)\.countDocuments", "c{token}"),
    (r"\bgrep -q (?:\"[^\"]*\"|'[^']*'|\S+) (?P<old>/[\w./-]+)", "{old}.{token}"),
    (r"\bls (?P<old>/[\w./-]+)", "/{token}"),
)
# Where a server is asked, another may answer in the place of the one that does not start.
_OTHER_QUESTIONS: Final = (
    (r"\bpython3? -m (?:pytest|unittest discover)(?P<old>)(?= |$)", " /{token}"),
    (r"\bpython3? -m (?!pytest\b|unittest\b)(?P<old>\w+)", "m{token}"),
    (r"\bpython3? -c [\"'][^\"']*?\bimport (?P<old>\w+)", "m{token}"),
    (r"(?:^|[;&] ?)pytest(?P<old>)(?= |$)", " /{token}"),
    (r"\b(?:npm|yarn|pnpm)(?: run)? (?!run\b)(?P<old>[\w-]+)", "{old}-{token}"),
    (r"(?:^|[;&{] ?)(?:make|bundle) (?P<old>[\w-]+)", "{old}-{token}"),
    (r"\btox -e (?P<old>\w+)", "{token}"),
    (r"\bnode (?P<old>[\w./-]+\.js)\b", "{old}.{token}"),
    (r"(?:^|[;&] ?)(?:celery|falcon-bench|hab|monerod)(?P<old>)(?= |$)", " --{token}"),
    (r"\bcaddy (?P<old>list-modules)\b", "{old}-{token}"),
)


class AlteredCommand(Record):
    """A success command with one change that no set-up can pass. `original` and `altered` are the changed text."""

    command: str
    part: AlteredPart
    original: str
    altered: str


def altered_commands(command: str, token: str) -> tuple[AlteredCommand, ...]:
    """Every change that is known for a success command; `token` is made of letters and digits, and occurs nowhere."""
    questions = _QUESTIONS if "curl " in command else (*_QUESTIONS, *_OTHER_QUESTIONS)
    return (*_apply(command, "answer", _ANSWERS, token), *_apply(command, "question", questions, token))


def _apply(command: str, part: AlteredPart, rules: tuple[tuple[str, str], ...], token: str) -> Iterator[AlteredCommand]:
    taken: set[tuple[int, int]] = set()
    for pattern, replacement in rules:
        for match in re.finditer(pattern, command):
            if match.span("old") in taken:
                continue
            taken.add(match.span("old"))
            old = match["old"]
            number = 600 + sum(token.encode()) % 400
            new = replacement.format(token=token, number=number, old=old)
            quote = old[:1] if old[:1] in {'"', "'"} and len(old) > 1 else ""
            start, end = match.span("old")
            changed = command[:start] + quote + new + quote + command[end:]
            yield AlteredCommand(command=changed, part=part, original=old or command[match.start() : end], altered=new)
