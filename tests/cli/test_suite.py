import json
import subprocess
from pathlib import Path

import pytest

from proctor.cli.dispatch import dispatch

CHANGE = """\
diff --git a/area.py b/area.py
--- a/area.py
+++ b/area.py
@@ -1,2 +1,2 @@
 def area(width, height):
-    return width + height
+    return width * height
diff --git a/tests/test_area.py b/tests/test_area.py
new file mode 100644
--- /dev/null
+++ b/tests/test_area.py
@@ -0,0 +1,11 @@
+import unittest
+
+from area import area
+
+
+class AreaTest(unittest.TestCase):
+    def test_a_square(self):
+        self.assertEqual(area(3, 3), 9)
+
+    def test_two_by_two(self):
+        self.assertEqual(area(2, 2), 4)
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert dispatch(["suite", "new", str(tmp_path / "mine")]) == 0
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "area.py").write_text("def area(width, height):\n    return width + height\n")
    (tmp_path / "change.diff").write_text(CHANGE)
    (tmp_path / "issue.md").write_text("The area of a square is wrong.\n")
    return tmp_path / "mine"


def add(suite: Path, **changed: str) -> int:
    given = {"id": "area_1", "repo": "repo", "diff": "change.diff", "issue": "issue.md", "format": "unittest"} | changed
    paths = {
        name: str(suite.parent / value) if name in {"repo", "diff", "issue"} else value for name, value in given.items()
    }
    return dispatch(["suite", "add-task", str(suite), *(word for name in paths for word in (f"--{name}", paths[name]))])


def test_a_task_from_a_diff_has_its_tests_hidden_and_labelled_and_is_healthy(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(suite.parent / "repo")]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "start"]):
        subprocess.run([*git, *words], check=True)
    (suite.parent / "repo/area.py").write_text("what is not committed is not taken")
    assert add(suite) == 0
    assert "1 fail-to-pass, 1 pass-to-pass" in capsys.readouterr().out
    folder = suite / "instances/area_1"
    instance = json.loads((folder / "instance.json").read_bytes())
    labels = [[test.rpartition(".")[2] for test in instance["eval"][f"{kind}_to_pass"]] for kind in ("fail", "pass")]
    assert labels == [["test_a_square"], ["test_two_by_two"]]
    assert (folder / "hidden/tests/test_area.py").is_file()
    assert not (folder / "repo/tests").exists()
    assert "test_area" not in (folder / "oracle.diff").read_text()
    artifacts = str(suite.parent / "artifacts")
    assert dispatch(["bench", "validate", "--suite", str(suite), "--artifact-dir", artifacts]) == 0
    assert "mine: 2 of 2 tasks are healthy on this machine" in capsys.readouterr().out
    assert add(suite) == 2
    assert "the suite has a task 'area_1' already" in capsys.readouterr().err


def test_a_change_that_no_test_shows_is_not_added(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = (suite / "suite.json").read_bytes()
    (suite.parent / "shown.diff").write_text(CHANGE.replace("area(3, 3), 9", "area(2, 2), 4"))
    assert add(suite, diff="shown.diff") == 20
    assert "no test fails before the change and passes after it" in capsys.readouterr().err
    (suite.parent / "untested.diff").write_text(CHANGE.partition("diff --git a/tests")[0])
    assert add(suite, diff="untested.diff") == 2
    assert "the diff changes no test" in capsys.readouterr().err
    (suite.parent / "other.diff").write_text(CHANGE.replace("width + height", "height + width"))
    assert add(suite, diff="other.diff") == 2
    assert "the diff does not apply to the program" in capsys.readouterr().err
    assert (suite / "suite.json").read_bytes() == listed
    assert [path.name for path in (suite / "instances").iterdir()] == ["greeting_0001"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"id": "../../evil"}, "cannot be an id"),
        ({"id": "a b"}, "cannot be an id"),
        ({"diff": "issue.md"}, "this diff cannot be used"),
        ({"diff": "repo"}, "is a directory"),
        ({"issue": "repo"}, "is a directory"),
        ({"repo": "issue.md"}, "is a file"),
    ],
)
def test_what_cannot_be_a_task_is_one_sentence_and_changes_nothing(
    suite: Path, changed: dict[str, str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(suite.parent.rglob("*"))
    assert add(suite, **changed) == 2
    assert sentence in capsys.readouterr().err
    assert sorted(suite.parent.rglob("*")) == before


def test_a_suite_has_an_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["suite", "new", str(tmp_path / "mine"), "--id", 'a"b']) == 2
    assert "cannot be an id" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()


def test_a_command_that_is_mistyped_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["suite", "addtask", "x"]) == 2
    assert "did you mean 'add-task'?" in capsys.readouterr().err
