import time

from hypothesis import given
from hypothesis import strategies as st

from processor_time import is_within
from proctor.report.viewer.diff import MAX_LINES, read_patch
from stored_runs import DIFF


def test_a_patch_is_cut_into_files_and_numbered_lines() -> None:
    patch = read_patch(DIFF + DIFF.replace("a.py", "b.js"))
    assert [(file.path, file.added, file.removed) for file in patch.files] == [("a.py", 1, 1), ("b.js", 1, 1)]
    rows = [(line.kind, line.before, line.after) for line in patch.files[0].lines if line.kind != "meta"]
    assert rows == [("hunk", None, None), ("same", 1, 1), ("del", 2, None), ("add", None, 2), ("same", 3, 3)]


def coloured(line: str, path: str = "a.py") -> list[tuple[str, str]]:
    header = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n"
    return read_patch(header + "+" + line).files[0].lines[-1].tokens


def test_tokens_are_coloured_by_kind() -> None:
    assert coloured('return "a\\"b" + 12  # so') == [
        *(("k", "return"), ("", " "), ("s", '"a\\"b"'), ("", " + "), ("n", "12"), ("", "  "), ("c", "# so"))
    ]
    assert coloured("x = 1; // so", "a.js")[-1] == ("c", "// so")
    assert coloured("x = y // 2", "a.py")[-1] == ("n", "2")
    assert coloured("don't worry", "a.md") == [("", "don't worry")]


@given(st.text(max_size=200), st.sampled_from(["a.py", "a.js", "x"]))
def test_nothing_is_lost_or_added_by_colouring(line: str, path: str) -> None:
    line = line.replace("\n", " ")
    assert "".join(text for _, text in coloured(line, path)) == line


@given(st.text("+-@ \n\\dif a/b.\"'`0", max_size=400))
def test_anything_can_claim_to_be_a_patch(text: str) -> None:
    patch = read_patch(text)
    assert sum(len(file.lines) for file in patch.files) <= text.count("\n") + 1


def test_a_hostile_patch_takes_no_longer_than_its_length() -> None:
    started = time.process_time()
    for evil in ('"' + '\\"' * 450, "'\\" * 450, "a" * 900, "/" * 900, "#" * 900, "`" * 900, "0" * 900):
        read_patch("@@ -1 +1 @@\n" + f"+{evil}\n" * 300)
    assert is_within(time.process_time() - started, 6)


def file_patch(name: str, added: int) -> str:
    return f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1,1 +1,{added} @@\n-x\n" + "+y\n" * added


def test_of_a_long_patch_every_file_is_there_every_line_is_counted_and_what_is_not_shown_is_said() -> None:
    sizes = {"huge.py": 3 * MAX_LINES, "small.py": 5, "large.py": 2 * MAX_LINES, "last.py": 1}
    patch = read_patch("".join(file_patch(name, size) for name, size in sizes.items()))
    assert {file.path: file.added for file in patch.files} == sizes
    assert (patch.added, patch.removed) == (sum(sizes.values()), 4)
    assert sum(len(file.lines) for file in patch.files) <= MAX_LINES
    shown = {file.path: len(file.lines) for file in patch.files}
    assert all(len(file.lines) + file.omitted_lines == sizes[file.path] + 5 for file in patch.files)
    assert (shown["small.py"], shown["last.py"]) == (10, 6)  # whole
    assert shown["huge.py"] == shown["large.py"] > MAX_LINES * 0.4


def test_more_files_than_lines_can_be_shown_are_all_listed() -> None:
    patch = read_patch("".join(file_patch(f"{number}.py", 2) for number in range(MAX_LINES + 1)))
    assert (len(patch.files), patch.added) == (MAX_LINES + 1, 2 * MAX_LINES + 2)


def test_a_text_that_is_not_a_patch_is_truncated_and_counted() -> None:
    (file,) = read_patch("@@ -1 +1 @@\n" + "+x\n" * (MAX_LINES + 9)).files
    assert (len(file.lines), file.omitted_lines) == (MAX_LINES, 10)
