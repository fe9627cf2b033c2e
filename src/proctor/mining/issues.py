"""The issues that commits name: from a file on this machine, or from the forge's API."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from proctor.core.errors import RetryableError, UsageError
from proctor.core.record import Record
from proctor.core.user_files import parse_json, read_user_file

_CLOSES: Final = re.compile(
    r"\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?)\b[\s:]*(?:[\w.-]+/[\w.-]+)?(?:#|gh-|https?://\S+/issues/)(\d+)",
    re.IGNORECASE,
)
_MENTIONS: Final = re.compile(r"(?:(?<![\w&/])#|\bgh-|\bissue\s+#?|https?://\S+/issues/)(\d+)\b", re.IGNORECASE)
_PULL: Final = re.compile(r"\(#(\d+)\)\s*$|^Merge pull request #(\d+)")
_API_SECONDS: Final = 30.0
_MAX_BYTES: Final = 10_000_000


class Issue(Record):
    """An issue, or a pull request, as far as an instruction needs it."""

    number: str
    title: str
    body: str
    is_pull: bool = False


FindIssue = Callable[[str], Issue | None]
"""Gives the issue with this number, if there is one."""


def find_issue(message: str, look_up: FindIssue) -> Issue | None:
    """The issue that a message, or the pull request that it names, says it closes; else one that it mentions."""
    texts = [message]
    pull = _PULL.search(message.strip().partition("\n")[0])
    if pull is not None:
        found = look_up(pull[1] or pull[2])
        if found is not None:
            texts.append(f"{found.title}\n{found.body}" if found.is_pull else "")
    for pattern in (_CLOSES, _MENTIONS):
        for text in texts:
            for number in _numbers(pattern, text):
                issue = look_up(number)
                if issue is not None and not issue.is_pull and issue.title.strip():
                    return issue
    return None


def _numbers(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    return (match[1] for match in pattern.finditer(text))


def read_issues(file: Path) -> FindIssue:
    """An export: a JSON list, or JSON lines, of issues as GitHub's and GitLab's APIs give them.

    Raises:
        UsageError: it is no such file.
    """
    text = read_user_file(file, "the issues", limit=1 << 30)
    try:
        rows = (
            parse_json(text)
            if text.lstrip().startswith("[")
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
        found = {issue.number: issue for issue in map(_issue, rows)}
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(
            f"no issues can be read there: {error}", where=file, fix="give JSON lines with number, title and body"
        ) from error
    return found.get


def _issue(row: dict[str, Any]) -> Issue:
    number = row.get("number") or row.get("iid") or row.get("id")
    if number is None:
        raise ValueError("an issue has no number")
    is_pull = bool(row.get("pull_request")) or "merge_requests" in str(row.get("web_url", ""))
    return Issue(
        number=str(number),
        title=str(row.get("title") or ""),
        body=str(row.get("body") or row.get("description") or ""),
        is_pull=is_pull,
    )


class ForgeIssues:
    """Issues from a forge, each asked for once; `known` are those of earlier sessions.

    Args:
        api: the address of the repository there, such as ``https://api.github.com/repos/OWNER/NAME`` or
            ``https://gitlab.com/api/v4/projects/ID``.
        token: of the user, if the repository needs one.

    Raises:
        UsageError: that is no address.
    """

    def __init__(self, api: str, token: str | None) -> None:
        if not api.startswith(("https://", "http://")):
            raise UsageError("the address of a forge's API begins with https://", where=api)
        self._api = api.rstrip("/")
        self._token = token
        self.known: dict[str, Issue | None] = {}

    def __call__(self, number: str) -> Issue | None:
        """The issue with this number.

        Raises:
            RetryableError: the forge cannot be asked.
        """
        if number not in self.known:
            self.known[number] = self._ask(number)
        return self.known[number]

    def _ask(self, number: str) -> Issue | None:
        address = f"{self._api}/issues/{urllib.parse.quote(number)}"
        headers = {"Accept": "application/json", "User-Agent": "proctor"}
        if self._token:
            headers |= {"Authorization": f"Bearer {self._token}", "PRIVATE-TOKEN": self._token}
        request = urllib.request.Request(address, headers=headers)  # noqa: S310 - the address was checked
        try:
            with urllib.request.urlopen(request, timeout=_API_SECONDS) as response:  # noqa: S310 - likewise
                row = json.loads(response.read(_MAX_BYTES))
        except urllib.error.HTTPError as error:
            if error.code in {404, 410}:
                return None
            raise RetryableError(
                f"the forge refuses to give issue {number}: {error.code} {error.reason}",
                fix="check the token and its rights",
            ) from error
        except (OSError, ValueError) as error:
            raise RetryableError(f"the request for issue {number} failed: {error}", where=self._api) from error
        return _issue(row)
