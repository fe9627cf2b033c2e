"""What the agent is asked to do: an issue or the message of the change, without the change itself."""

import re
from collections.abc import Collection, Iterable
from typing import Final

from proctor.core.record import Record
from proctor.mining.history import HistoryChange
from proctor.mining.issues import Issue
from proctor.workspaces.diff_parser import parse_diff

_TRAILER: Final = re.compile(
    r"^\s*(?:signed-off-by|co-authored-by|reviewed-by|acked-by|tested-by|change-id|git-svn-id|pr-url|reviewed-on|"
    r"cherry[ -]picked from|\(cherry picked from|differential revision|pull request( resolved)?|backport(ed)? of)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSING: Final = re.compile(
    r"\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|refs?|see|re|ticket|issue|pr|pull request|gh)\b[\s:]*"
    r"(?:[\w.-]+/[\w.-]+)?(?:#|gh-|!)\d+(?:\s*(?:,|and|&)\s*(?:#|gh-|!)\d+)*[.,;:]?",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\s*\((?:[\w.-]+/[\w.-]+)?[#!]\d+\)|(?<![\w/])#\d+\b")
_LINK: Final = re.compile(r"<?https?://\S+/(?:commit|commits|pull|pulls|merge_requests|compare|blob|tree|diff)/\S*>?")
_FORGE_LINK: Final = re.compile(r"<?https?://(?:www\.)?(?:github|gitlab|bitbucket|codeberg)\.[a-z]+/\S+>?")
_HASH: Final = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
_MERGE: Final = re.compile(
    r"^(?:Merge (?:pull request|branch|remote-tracking branch|branches|tag|PR)\b.*|Merged in .*)$"
)
_FENCE: Final = re.compile(r"^(?:```|~~~)(\w*)[^\n]*\n(.*?)^(?:```|~~~)\s*?$", re.MULTILINE | re.DOTALL)
_DIFF_LINE: Final = re.compile(r"^(?:diff --git |index [0-9a-f]+\.\.|@@ |\+\+\+ |--- )")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'])")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_DISTINCTIVE: Final = 10


class DiffWords(Record):
    """What a diff adds: its lines without white space around them, and the names in them."""

    lines: frozenset[str]
    names: frozenset[str]


def diff_words(patch: bytes) -> DiffWords:
    """The lines and the names that a diff adds."""
    added = [
        line.text.decode("utf-8", "replace").strip()
        for file in parse_diff(patch).files
        for line in file.content
        if line.kind == "add"
    ]
    return DiffWords(
        lines=frozenset(filter(None, added)), names=frozenset(word for line in added for word in names_in(line))
    )


def names_in(text: str) -> Iterable[str]:
    """Words that can be names in a program."""
    return _WORD.findall(text)


def is_new_identifier(name: str) -> bool:
    """Whether a name is one that a programmer made, and no word of a language: `sum_exactly`, `sumExactly`, `utf8`."""
    return (
        "_" in name.strip("_")
        or any(map(str.isdigit, name))
        or not (name.islower() or name.istitle() or name.isupper())
    )


class Instruction(Record):
    """A text for the agent, and where it comes from."""

    text: str
    source: str
    issue: str | None = None


def make_instruction(
    change: HistoryChange, issue: Issue | None, oracle: DiffWords, *, fix_only: Collection[str], merged: str = ""
) -> Instruction:
    """The issue, or else the message, scrubbed of the change.

    Args:
        change: whose message it is.
        issue: the issue that the message names.
        oracle: what the reference solution adds.
        fix_only: names that only the reference solution introduces, and that its tests do not need.
        merged: the messages of the commits that a merge brings, for one that says nothing itself.
    """
    if issue is not None:
        text = scrub(f"{issue.title.strip()}\n\n{issue.body.strip()}", oracle, ())
        return Instruction(text=f"{text}\n", source="issue", issue=issue.number)
    lines = change.message.strip().splitlines()
    message = "\n".join(line for line in lines if not _MERGE.match(line)).strip() or merged
    return Instruction(text=f"{scrub(message, oracle, fix_only)}\n", source="commit-message")


def scrub(text: str, oracle: DiffWords, fix_only: Collection[str]) -> str:
    """A text without diffs, lines of the oracle, links to it, and sentences with names that only it introduces."""
    text = text.replace("\r\n", "\n")
    text = _FENCE.sub(lambda match: "" if _shows_fix(match[1], match[2], oracle) else match[0], text)
    for pattern in (_TRAILER, _LINK, _FORGE_LINK, _CLOSING, _NUMBER, _HASH):
        text = pattern.sub("", text)
    kept = []
    for line in text.splitlines():
        bare = line.strip()
        if _DIFF_LINE.match(line) or (bare.lstrip("+-> ") in oracle.lines and _is_distinctive(bare)):
            continue
        kept.append(_without_names(line, fix_only))
    text = "\n".join(kept)
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^[\s*.,;:()-]+$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _shows_fix(language: str, block: str, oracle: DiffWords) -> bool:
    lines = [line.strip().lstrip("+- ").strip() for line in block.splitlines()]
    shown = [line for line in lines if line in oracle.lines and _is_distinctive(line)]
    return (
        language.lower() in {"diff", "patch"}
        or bool(shown)
        or any(_DIFF_LINE.match(line) for line in block.splitlines())
    )


def _is_distinctive(line: str) -> bool:
    return sum(character.isalnum() for character in line) >= _DISTINCTIVE


def _without_names(line: str, names: Collection[str]) -> str:
    if not names or not set(names_in(line)) & set(names):
        return line
    return " ".join(part for part in _SENTENCE.split(line) if not set(names_in(part)) & set(names))
