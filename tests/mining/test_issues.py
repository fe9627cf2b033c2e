"""The issues that commits name."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from proctor.core.errors import InfrastructureError, UsageError
from proctor.mining.issues import ForgeIssues, Issue, find_issue, read_issues

ROWS = [
    {"number": 3, "title": "Wrong sums", "body": "2 + 3 gives -1"},
    {"number": 7, "title": "Fix sums", "body": "Closes #3", "pull_request": {"url": "x"}},
    {"iid": 12, "title": "From GitLab", "description": "text"},
]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    file = tmp_path / "issues.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)))
    return file


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("Fix it\n\nFixes #3", "Wrong sums"),
        ("Fix it (#7)", "Wrong sums"),
        ("Merge pull request #7 from a/b", "Wrong sums"),
        ("Something about #12", "From GitLab"),
        ("Nothing", None),
        ("Fixes #999", None),
    ],
)
def test_a_message_leads_to_the_issue_that_it_closes(export: Path, message: str, title: str | None) -> None:
    issue = find_issue(message, read_issues(export))
    assert (issue.title if issue else None) == title


def test_an_export_may_be_one_list(export: Path) -> None:
    export.write_text(json.dumps(ROWS))
    found = read_issues(export)("12")
    assert found is not None
    assert found.body == "text"


def test_a_file_that_holds_no_issues_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "issues.json"
    for text in ("not json", '{"title": "Wrong sums"}'):
        file.write_text(text)
        with pytest.raises(UsageError, match="no issues can be read"):
            read_issues(file)


class Forge(BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        number = self.path.rpartition("/")[2]
        self.send_response({"3": 200, "4": 404}.get(number, 403))
        self.end_headers()
        if number == "3":
            self.wfile.write(json.dumps(ROWS[0]).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def forge() -> Iterator[str]:
    Forge.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Forge)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/repos/a/b"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_forge_is_asked_once_for_each_issue_with_the_users_token(forge: str) -> None:
    issues = ForgeIssues(forge, "dummy-token")
    assert [issues("3"), issues("4"), issues("3")] == [read_row(), None, read_row()]
    assert Forge.asked == [("/repos/a/b/issues/3", "Bearer dummy-token"), ("/repos/a/b/issues/4", "Bearer dummy-token")]


def read_row() -> Issue:
    return Issue(number="3", title="Wrong sums", body="2 + 3 gives -1")


def test_a_forge_that_refuses_is_an_error_and_no_missing_issue(forge: str) -> None:
    with pytest.raises(InfrastructureError, match="403"):
        ForgeIssues(forge, None)("5")
