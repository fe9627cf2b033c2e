import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.workspaces import InvalidSubmission
from proctor.workspaces.diff_parser import FileDiff, parse_diff, read_diff


def git(directory: Path, *arguments: str) -> bytes:
    program = shutil.which("git")
    if program is None:
        pytest.skip("git is not installed")
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(
        [program, "-C", str(directory), *identity, *arguments], check=True, capture_output=True, env=environment
    ).stdout


def lines(file: FileDiff, kind: str) -> list[tuple[int | None, int | None, bytes]]:
    return [(line.before, line.after, line.text) for line in file.content if line.kind == kind]


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
    files = {file.path.decode(): file for file in read_diff(patch)}
    assert set(files) == {
        *("changed.py", "gone.py", "new name.py", "mode.sh", "tricky.sql"),
        *("added ü.py", "empty.py", "blob.bin", "link"),
    }
    assert lines(files["changed.py"], "add") == [(None, 4, b"line three"), (None, 5, b"and more")]
    assert lines(files["changed.py"], "del") == [(4, None, b"line 3"), (26, None, b"line 25")]
    assert files["gone.py"].removed == {b"gone.py"}
    assert not files["gone.py"].written
    assert files["new name.py"].old_path == b"old name.py"
    assert files["tricky.sql"].lines_of("del") == [b"-- a/comment", b"++ b/other", b"select 1"]
    assert files["added ü.py"].lines_of("add") == [b"import os", b"os._exit(0)"]
    assert files["link"].lines_of("add") == [b"/etc/passwd"]


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
    assert (one.path, one.lines_of("add"), one.lines_of("del")) == (b"one.py", [b"b"], [b"a"])
    assert (two.path, two.lines_of("add")) == (b"two.py", [b"x", b"y"])


def test_a_hunk_header_is_read_with_any_number_of_zeros_in_front() -> None:
    zeros = b"0" * 40
    header = b"@@ -%b1,%b2 +%b1,%b2 @@" % (zeros, zeros, zeros, zeros)
    (file,) = read_diff(b"--- a/a\n+++ b/a\n" + header + b"\n x\n--- y\n+++ z\n")
    assert [(line.kind, line.text) for line in file.content[3:]] == [("same", b"x"), ("del", b"-- y"), ("add", b"++ z")]


def test_lines_with_carriage_returns_are_read() -> None:
    patch = b"--- a/a.txt\r\n+++ b/a.txt\r\n@@ -1 +1 @@\r\n-x\r\n+y\r\n"
    (file,) = read_diff(patch)
    assert (file.path, file.lines_of("add")) == (b"a.txt", [b"y\r"])


def test_no_line_is_lost() -> None:
    patch = b"Subject: x\n\ndiff --git a/a b/a\nindex 1..2\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n-- \n2.40\n"
    preamble, files = parse_diff(patch)
    signs = {"add": b"+", "del": b"-", "same": b" ", "hunk": b"", "meta": b""}
    texts = [signs[line.kind] + line.text for line in (*preamble, *(line for file in files for line in file.content))]
    assert b"".join(text + b"\n" for text in texts) == patch


def test_text_that_is_not_a_diff_is_refused() -> None:
    with pytest.raises(InvalidSubmission):
        read_diff(b"hello\n")


def parse(patch: bytes) -> None:
    with contextlib.suppress(InvalidSubmission):
        parse_diff(patch)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(patch: bytes) -> None:
    parse(patch)


pieces = st.sampled_from(
    [
        b"diff --git a/x b/x", b"diff --git ", b'diff --git "a/\\303\\274" "b/\\303\\274"', b"--- a/x", b"+++ b/x",
        b"--- /dev/null", b"+++ /dev/null", b'+++ "b/\\', b"@@ -1,3 +1,4 @@", b"@@ -0,0 +1 @@", b"+x", b"-y", b" z",
        b"rename from a", b"rename to b", b"new file mode 100644", b"new mode 12", b"index 1..2 100644", b"index",
        b"deleted file mode 100644", b"GIT binary patch", b"Binary files a/x and b/x differ", b"\\ No newline", b"",
    ]
)  # fmt: skip


@given(st.lists(pieces, max_size=20))
def test_any_order_of_lines_is_read_or_refused(lines: list[bytes]) -> None:
    parse(b"\n".join(lines))
