import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.grading.audit import ChangedFile, ChangeKind, compare_trees, read_diff


def git(directory: Path, *arguments: str) -> bytes:
    program = shutil.which("git")
    if program is None:
        pytest.skip("git is not installed")
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(
        [program, "-C", str(directory), *identity, *arguments], check=True, capture_output=True, env=environment
    ).stdout


def by_path(changes: tuple[ChangedFile, ...]) -> dict[str, ChangedFile]:
    return {change.path: change for change in changes}


def test_what_git_writes_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "changed.py").write_text("".join(f"line {number}\n" for number in range(30)))
    (tmp_path / "gone.py").write_text("x = 1\n")
    (tmp_path / "old name.py").write_text("".join(f"keep {number}\n" for number in range(20)))
    (tmp_path / "mode.sh").write_text("echo\n")
    (tmp_path / "tricky.sql").write_text("-- a/comment\n++ b/other\nselect 1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    text = (tmp_path / "changed.py").read_text().replace("line 3\n", "line three\nand more\n").replace("line 25\n", "")
    (tmp_path / "changed.py").write_text(text)
    (tmp_path / "gone.py").unlink()
    (tmp_path / "old name.py").rename(tmp_path / "new name.py")
    (tmp_path / "mode.sh").chmod(0o755)
    (tmp_path / "tricky.sql").write_text("select 2\n")
    (tmp_path / "added ü.py").write_text("import os\nos._exit(0)\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "blob.bin").write_bytes(bytes(range(256)))
    (tmp_path / "link").symlink_to("/etc/passwd")
    git(tmp_path, "add", "-A")
    patch = git(tmp_path, "diff", "--cached", "--binary", "-M")
    changes = by_path(read_diff(patch))
    assert {path: change.kind.value for path, change in changes.items()} == {
        "changed.py": "changed",
        "gone.py": "deleted",
        "new name.py": "renamed",
        "mode.sh": "changed",
        "tricky.sql": "changed",
        "added ü.py": "added",
        "empty.py": "added",
        "blob.bin": "added",
        "link": "added",
    }
    assert changes["changed.py"].added == ((4, "line three"), (5, "and more"))
    assert changes["changed.py"].removed == ("line 3", "line 25")
    assert changes["new name.py"].old_path == "old name.py"
    assert changes["mode.sh"].mode == 0o100755
    assert changes["tricky.sql"].removed == ("-- a/comment", "++ b/other", "select 1")
    assert changes["added ü.py"].content == b"import os\nos._exit(0)"
    assert changes["blob.bin"].binary
    assert changes["link"].mode == 0o120000
    assert changes["link"].added == ((1, "/etc/passwd"),)


def test_a_plain_diff_without_gits_headers_is_read() -> None:
    patch = b"""--- a/one.py\t2024-01-01
+++ b/one.py\t2024-01-02
@@ -1 +1 @@
-a
+b
--- /dev/null
+++ b/two.py
@@ -0,0 +1,2 @@
+x
+y
\\ No newline at end of file
"""
    one, two = read_diff(patch)
    assert (one.path, one.kind, one.added, one.removed) == ("one.py", ChangeKind.CHANGED, ((1, "b"),), ("a",))
    assert (two.path, two.kind, two.content) == ("two.py", ChangeKind.ADDED, b"x\ny")


def test_the_whole_file_is_taken_where_the_caller_has_it() -> None:
    patch = b"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n"
    assert read_diff(patch, {"a.py": b"x\nz\n"})[0].content == b"x\nz\n"
    assert read_diff(patch)[0].content is None


def test_lines_with_carriage_returns_are_read() -> None:
    patch = b"--- a/a.txt\r\n+++ b/a.txt\r\n@@ -1 +1 @@\r\n-x\r\n+y\r\n"
    (change,) = read_diff(patch)
    assert (change.path, change.added) == ("a.txt", ((1, "y\r"),))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(patch: bytes) -> None:
    read_diff(patch)


pieces = st.sampled_from(
    [
        b"diff --git a/x b/x", b"diff --git ", b'diff --git "a/\\303\\274" "b/\\303\\274"', b"--- a/x", b"+++ b/x",
        b"--- /dev/null", b"+++ /dev/null", b'+++ "b/\\', b"@@ -1,3 +1,4 @@", b"@@ -0,0 +1 @@", b"+x", b"-y", b" z",
        b"rename from a", b"rename to b", b"new file mode 100644", b"new mode 12", b"index 1..2 100644", b"index",
        b"deleted file mode 100644", b"GIT binary patch", b"Binary files a/x and b/x differ", b"\\ No newline", b"",
    ]
)  # fmt: skip


@given(st.lists(pieces, max_size=20))
def test_any_order_of_lines_is_read_without_an_exception(lines: list[bytes]) -> None:
    read_diff(b"\n".join(lines))


files = st.dictionaries(st.sampled_from(["a", "b/c"]), st.lists(st.sampled_from("xyz"), max_size=6).map("\n".join))


@given(files, files)
def test_trees_are_compared_file_by_file(before: dict[str, str], after: dict[str, str]) -> None:
    old = {name: text.encode() for name, text in before.items()}
    new = {name: text.encode() for name, text in after.items()}
    changes = by_path(compare_trees(old, new))
    assert set(changes) == {name for name in {*old, *new} if old.get(name) != new.get(name)}
    for name, change in changes.items():
        assert all(after[name].split("\n")[number - 1] == text for number, text in change.added)
        assert change.kind is (
            ChangeKind.ADDED if name not in old else ChangeKind.DELETED if name not in new else ChangeKind.CHANGED
        )
