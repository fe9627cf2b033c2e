import atexit
import base64
import functools
import os
import shutil
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proctor.core.causes import Cause
from proctor.core.submission import PatchKind
from proctor.workspaces import ApplyResult, BaseTree, InvalidSubmission, check_out, patch_sha256
from proctor.workspaces.applying import apply_diff
from workspaces_world import Repository, base_from, contents, git, snapshot, write

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
CHANGE = b"""\
diff --git a/f b/f
--- a/f
+++ b/f
@@ -1,3 +1,3 @@
 a
-b
+B
 c
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(tmp_path / "tree", {"f": "a\nb\nc\n", "dir/g": "g\n"})


def _refused(tree: Path, patch: bytes, cause: Cause) -> str:
    """The sentence with which a patch is refused; nothing around the tree has changed."""
    before = snapshot(tree.parent)
    with pytest.raises(InvalidSubmission) as caught:
        apply_diff(tree, patch)
    assert caught.value.cause is cause, caught.value.sentence
    assert snapshot(tree.parent) == before
    return caught.value.sentence


def _new_file(path: str, *, mode: int = 100644, content: str = "x", quoted: bool = False) -> bytes:
    old, new = (f'"a/{path}"', f'"b/{path}"') if quoted else (f"a/{path}", f"b/{path}")
    end = "\n\\ No newline at end of file\n" if mode == 120000 else "\n"
    return (
        f"diff --git {old} {new}\nnew file mode {mode}\n--- /dev/null\n+++ {new}\n@@ -0,0 +1 @@\n+{content}{end}"
    ).encode()


def test_a_patch_that_fits_applies_strictly(tree: Path) -> None:
    assert apply_diff(tree, CHANGE) == ApplyResult(applied_with=None, touched=("f",))
    assert (tree / "f").read_text() == "a\nB\nc\n"


def test_a_missing_last_line_end_is_made_good(tree: Path) -> None:
    assert apply_diff(tree, CHANGE.rstrip(b"\n")).applied_with is None


def test_a_plain_diff_applies_too(tree: Path) -> None:
    plain = CHANGE.partition(b"\n")[2]
    assert apply_diff(tree, plain).touched == ("f",)
    dated = plain.replace(b"--- a/f", b"--- a/f\t2020-01-01 00:00:00").replace(
        b"+++ b/f", b"+++ b/f\t2020-01-01 00:00:01"
    )
    write(tree, {"f": "a\nb\nc\n"})
    assert apply_diff(tree, dated).touched == ("f",)


def test_a_plain_diff_without_prefixes_applies_to_the_file_it_names(tree: Path) -> None:
    plain = CHANGE.partition(b"\n")[2].replace(b"a/f", b"f").replace(b"b/f", b"f")
    assert apply_diff(tree, plain).touched == ("f",)


def test_text_around_a_diff_is_not_in_its_way(tree: Path) -> None:
    mail = b"From 1111 Mon Sep 17\nSubject: fix\n\nA fix.\n---\n f | 2 +-\n\n" + CHANGE + b"-- \n2.39.5\n\n"
    assert apply_diff(tree, mail).touched == ("f",)


@pytest.mark.parametrize("patch", [b"", b"\n", b" \n\t\n"])
def test_an_empty_patch_is_called_empty(tree: Path, patch: bytes) -> None:
    assert "empty" in _refused(tree, patch, Cause.EMPTY)


def test_a_patch_that_changes_nothing_touches_nothing(tree: Path) -> None:
    same = CHANGE.replace(b"+B", b"+b")
    before = snapshot(tree)
    assert apply_diff(tree, same) == ApplyResult(applied_with=None, touched=())
    assert snapshot(tree) == before


@pytest.mark.parametrize(
    "patch",
    [
        b"I have fixed it.\n",
        b"diff --git a/f b/f\n",
        CHANGE.replace(b"-1,3 +1,3", b"-1,9 +1,9"),
        b"diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral 5\nzzzz\n\n",
        b"diff --git a/d/n a/d/n\n\n--- /dev/null\n+++ a/d/\n@@ -0,0 +0 @@\n+\n",  # git stumbles over its own assertion
        CHANGE.replace(b"--- a/f", b"deleted file mode 100644\n--- a/f").replace(b"+++ b/f", b"+++ /dev/null"),
    ],
)
def test_a_text_that_is_not_a_patch_is_malformed(tree: Path, patch: bytes) -> None:
    _refused(tree, patch, Cause.MALFORMED_SUBMISSION)


def test_a_fenced_patch_is_read_up_to_the_fence_as_git_does(tree: Path) -> None:
    assert apply_diff(tree, b"```diff\n" + CHANGE + b"```\n").touched == ("f",)


@pytest.mark.parametrize(
    "patch",
    [
        CHANGE.replace(b"-b", b"-x"),
        CHANGE.replace(b" a\n", b" z\n"),
        CHANGE.replace(b"f", b"missing"),
        CHANGE + _new_file("f"),
        _new_file("dir"),
        _new_file("f/inner"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused_whole(tree: Path, patch: bytes) -> None:
    _refused(tree, patch, Cause.DOES_NOT_APPLY)


def test_when_one_file_does_not_fit_no_other_is_changed(tree: Path) -> None:
    _refused(tree, CHANGE + _new_file("new") + CHANGE.replace(b"f", b"dir/g"), Cause.DOES_NOT_APPLY)


def test_context_is_never_guessed(tree: Path) -> None:
    """`patch` would apply this with fuzz; so did the harness that this is compatible with."""
    write(tree, {"f": "a\nb\nc\nd\ne\nf\ng\n"})
    fuzzy = b"--- a/f\n+++ b/f\n@@ -1,7 +1,7 @@\n WRONG\n b\n c\n-d\n+D\n e\n f\n g\n"
    _refused(tree, fuzzy, Cause.DOES_NOT_APPLY)


@pytest.mark.parametrize(
    ("content", "patch", "result"),
    [
        (b"a\nb\nc\n", CHANGE.replace(b"\n", b"\r\n"), b"a\nB\nc\n"),
        (b"a:\n\tb\nc\n", CHANGE.replace(b"\n a\n", b"\n a:\n").replace(b"-b", b"-    b"), b"a:\nB\nc\n"),
        (b"a\r\nb\r\nc\r\n", CHANGE, None),
    ],
)
def test_white_space_that_differs_is_a_fallback_and_said_so(
    tree: Path, content: bytes, patch: bytes, result: bytes | None
) -> None:
    write(tree, {"f": content})
    assert apply_diff(tree, patch).applied_with == "whitespace"
    if result is not None:
        assert (tree / "f").read_bytes() == result


def test_a_patch_of_a_crlf_file_is_strict_whatever_ends_its_headers_have(tree: Path) -> None:
    for headers in (b"\n", b"\r\n"):
        write(tree, {"f": "a\r\nb\r\nc\r\n"})
        head, hunk = CHANGE.replace(b"\n", b"\r\n").split(b"@@", 1)
        patch = head.replace(b"\r\n", headers) + b"@@" + hunk
        assert apply_diff(tree, patch).applied_with is None
        assert (tree / "f").read_bytes() == b"a\r\nB\r\nc\r\n"


def test_a_patch_of_the_base_is_merged_into_a_tree_that_has_moved_on(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(30)]
    base = base_from(tmp_path, {"f": "".join(lines)})
    check_out(base, tmp_path / "edited")
    write(tmp_path / "edited", {"f": "".join([*lines[:15], "new\n", *lines[15:]])})
    patch = git(tmp_path / "edited", "diff", "--full-index").encode() + b"\n"
    check_out(base, tmp_path / "moved")
    write(tmp_path / "moved", {"f": "".join(["top\n", *lines[:13], "other 13\n", *lines[14:]])})
    before = snapshot(tmp_path / "moved")
    with pytest.raises(InvalidSubmission):
        apply_diff(tmp_path / "moved", patch)
    assert snapshot(tmp_path / "moved") == before
    assert apply_diff(tmp_path / "moved", patch, base=base) == ApplyResult(applied_with="3way", touched=("f",))
    assert (tmp_path / "moved/f").read_text() == "".join(
        ["top\n", *lines[:13], "other 13\n", lines[14], "new\n", *lines[15:]]
    )


def test_a_merge_with_conflicts_is_no_merge(tmp_path: Path) -> None:
    base = base_from(tmp_path, {"f": "a\nb\nc\n"})
    check_out(base, tmp_path / "edited")
    write(tmp_path / "edited", {"f": "a\nmine\nc\n"})
    patch = git(tmp_path / "edited", "diff", "--full-index").encode() + b"\n"
    tree = tmp_path / "moved"
    check_out(base, tree)
    write(tree, {"f": "a\nyours\nc\n", ".gitattributes": "* merge=union\n"})
    before = snapshot(tree)
    with pytest.raises(InvalidSubmission) as caught:
        apply_diff(tree, patch, base=base)
    assert caught.value.cause is Cause.DOES_NOT_APPLY
    assert snapshot(tree) == before


def test_an_enclosing_repository_does_not_swallow_the_patch(tmp_path: Path) -> None:
    outer = Repository(tmp_path / "outer")
    outer.commit({"x": "1"})
    tree = write(outer.path / "target/x07bench/repo", {"f": "a\nb\nc\n"})
    assert apply_diff(tree, CHANGE).touched == ("f",)
    assert (tree / "f").read_text() == "a\nB\nc\n"


def test_attributes_of_the_tree_do_not_change_a_byte(tree: Path) -> None:
    write(tree, {".gitattributes": "* text eol=crlf ident\n", "f": "a\nb\n$Id$\n"})
    patch = b"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n $Id$\n"
    assert apply_diff(tree, patch).applied_with is None
    assert (tree / "f").read_bytes() == b"a\nB\n$Id$\n"


def test_renames_copies_and_modes_apply(tree: Path) -> None:
    patch = (
        b"diff --git a/f b/moved to\nsimilarity index 100%\nrename from f\nrename to moved to\n"
        b"diff --git a/dir/g b/copy\nsimilarity index 100%\ncopy from dir/g\ncopy to copy\n"
        b"diff --git a/dir/g b/dir/g\nold mode 100644\nnew mode 100755\n"
        b"diff --git a/empty file b/empty file\nnew file mode 100644\nindex 0000000..e69de29\n"
    )
    assert apply_diff(tree, patch).touched == ("copy", "dir/g", "empty file", "f", "moved to")
    assert contents(tree) == {
        b"moved to": ("file", b"a\nb\nc\n"),
        b"copy": ("file", b"g\n"),
        b"dir/g": ("program", b"g\n"),
        b"empty file": ("file", b""),
    }


@pytest.mark.parametrize(
    "patch",
    [
        _new_file("../x"),
        _new_file("dir/../../x"),
        _new_file("..\\x"),
        _new_file("\\056\\056/x", quoted=True),
        _new_file("a\\057..\\057..\\057x", quoted=True),
        _new_file("/etc/x"),
        b"--- /dev/null\n+++ /etc/x\n@@ -0,0 +1 @@\n+x\n",
        b"--- /dev/null\n+++ b//etc/x\n@@ -0,0 +1 @@\n+x\n",
        _new_file(".git/config"),
        _new_file(".GIT/hooks/post-commit"),
        _new_file("dir/.git"),
        _new_file("git~1/config"),
        _new_file(".git::$INDEX_ALLOCATION/config"),
        _new_file(".g\u200cit/config"),
        _new_file(".g\\342\\200\\214it/config", quoted=True),
        b"diff --git a/f b/../x\nsimilarity index 100%\nrename from f\nrename to ../x\n",
        b"diff --git a/../x b/f2\nsimilarity index 100%\ncopy from ../x\ncopy to f2\n",
        b"diff --git a/f b/f\nrename old f\nrename new .git/config\n",
        b"diff --git a/../x b/../x\nold mode 100644\nnew mode 100755\n",
        b"diff --git a/../x b/../x\ndeleted file mode 100644\n",
        _new_file("link", mode=120000, content="/etc/passwd"),
        _new_file("dir/link", mode=120000, content="../../outside"),
        _new_file("link", mode=120000, content="dir/../../outside"),
        _new_file("link", mode=120000, content="../outside") + _new_file("link/x"),
        _new_file("link", mode=120000, content="dir") + _new_file("link/x"),
        _new_file("there", mode=120000, content="dir")
        + b"diff --git a/there b/here\nsimilarity index 100%\nrename from there\nrename to here\n"
        + _new_file("here/x"),
    ],
)
def test_a_patch_that_reaches_out_is_unsafe_whatever_its_spelling(tree: Path, patch: bytes) -> None:
    write(tree.parent, {"x": "outside\n", "outside/y": "y\n"})
    _refused(tree, patch, Cause.UNSAFE_SUBMISSION)
    _refused(tree, CHANGE + patch, Cause.UNSAFE_SUBMISSION)


@pytest.mark.parametrize("target", ["../outside", "dir", "/etc"])
def test_a_symlink_of_the_tree_is_not_written_through(tree: Path, target: str) -> None:
    write(tree.parent, {"outside/y": "y\n"})
    write(tree, {"way": Path(target)})
    assert "through the symlink way" in _refused(tree, _new_file("way/x"), Cause.UNSAFE_SUBMISSION)
    delete = b"diff --git a/way/g b/way/g\ndeleted file mode 100644\n--- a/way/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n"
    _refused(tree, delete, Cause.UNSAFE_SUBMISSION)


def test_a_symlink_may_give_way_to_a_directory(tree: Path) -> None:
    write(tree, {"way": Path("/etc")})
    patch = (
        b"diff --git a/way b/way\ndeleted file mode 120000\n--- a/way\n+++ /dev/null\n@@ -1 +0,0 @@\n-/etc\n"
        b"\\ No newline at end of file\n"
    )
    assert apply_diff(tree, _new_file("way/x") + patch).touched == ("way", "way/x")
    assert contents(tree)[b"way/x"] == ("file", b"x\n")


def test_a_symlink_of_the_tree_that_leads_out_can_be_removed_but_not_moved(tree: Path) -> None:
    write(tree, {"way": Path("/etc")})
    move = b"diff --git a/way b/other\nsimilarity index 100%\nrename from way\nrename to other\n"
    _refused(tree, move, Cause.UNSAFE_SUBMISSION)


def _binary(path: str, kind: str, size: int, data: bytes) -> bytes:
    packed = zlib.compress(data)
    lines = []
    for start in range(0, len(packed), 52):
        piece = packed[start : start + 52]
        length = chr(ord("A") + len(piece) - 1) if len(piece) <= 26 else chr(ord("a") + len(piece) - 27)
        lines.append(length.encode() + base64.b85encode(piece, pad=True))
    header = f"diff --git a/{path} b/{path}\nindex {'1' * 40}..{'2' * 40} 100644\nGIT binary patch\n{kind} {size}\n"
    return header.encode() + b"\n".join(lines) + b"\n\n"


def test_a_binary_part_that_unfolds_to_gigabytes_is_too_large(tree: Path) -> None:
    literal = _binary("f", "literal", 10_000_000_000, b"x")
    assert "more than" in _refused(tree, literal, Cause.TOO_LARGE)
    # source size 6, result size 2**40, then copies of the source
    delta = b"\x06" + bytes([0x80, 0x80, 0x80, 0x80, 0x80, 0x20]) + b"\x90\x06" * 100
    _refused(tree, _binary("f", "delta", len(delta), delta), Cause.TOO_LARGE)


def test_a_patch_over_the_limit_is_too_large(tree: Path) -> None:
    with pytest.raises(InvalidSubmission) as caught:
        apply_diff(tree, CHANGE, limit_bytes=10)
    assert caught.value.cause is Cause.TOO_LARGE


def test_a_patch_of_too_many_files_is_too_large(tree: Path) -> None:
    many = b"".join(b"diff --git a/%d b/%d\nnew file mode 100644\n" % (number, number) for number in range(20_001))
    _refused(tree, many, Cause.TOO_LARGE)


def test_a_patch_of_many_files_is_not_slow(tree: Path) -> None:
    many = b"".join(b"diff --git a/m/%d b/m/%d\nnew file mode 100644\n" % (number, number) for number in range(2000))
    assert len(apply_diff(tree, many).touched) == 2000


def test_files_that_the_patch_does_not_name_are_unchanged(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    write(tree, {b"\xff": "x", "way": Path("/etc")})
    before = snapshot(tree)
    apply_diff(tree, CHANGE)
    after = snapshot(tree)
    assert {name for name in after if before.get(name) != after[name]} == {"f"}
    _refused(tree, _new_file("pipe"), Cause.DOES_NOT_APPLY)


def test_a_submission_is_identified_by_its_bytes() -> None:
    assert patch_sha256(b"", PatchKind.UNIFIED_DIFF).startswith("e3b0c442")
    assert patch_sha256(CHANGE, PatchKind.UNIFIED_DIFF) != patch_sha256(CHANGE + b"\n", PatchKind.UNIFIED_DIFF)


FRAGMENTS = st.sampled_from(
    [
        *CHANGE.splitlines(),
        *_new_file("../x").splitlines(),
        *_new_file("link", mode=120000, content="../outside").splitlines(),
        *_new_file("link/x").splitlines(),
        *_new_file(".git/config").splitlines(),
        *_new_file("\\056\\056/x", quoted=True).splitlines(),
        b"rename from f",
        b"rename to ../x",
        b"rename to link/y",
        b"copy from way/y",
        b"copy to h",
        b"deleted file mode 100644",
        b"old mode 100644",
        b"new mode 120000",
        b"--- a/way/y",
        b"+++ b/way/y",
        b"+++ b/f\t",
        b"@@ -1 +1 @@",
        b"@@ -0,0 +1,2 @@",
        b"@@ -1,3 +0,0 @@",
        b"-a",
        b"-y",
        b"+",
        b"",
        b"\\ No newline at end of file",
        b"GIT binary patch",
        b"literal 3",
        b"KcmZQ#Nlj)0",
        b"index 1111111..2222222 120000",
        b"index de98044..0000000 100644",
    ]
)
HOSTILE = st.lists(st.one_of(FRAGMENTS, st.binary(max_size=20)), max_size=25).map(b"\n".join)


def _change_bytes(drawn: tuple[bytes, list[tuple[int, int]]]) -> bytes:
    data = bytearray(drawn[0])
    for position, value in drawn[1]:
        data[position % len(data)] = value
    return bytes(data)


MUTATED = st.tuples(
    st.sampled_from([CHANGE, CHANGE + _new_file("link", mode=120000, content="dir"), _new_file("dir/n") + CHANGE]),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
).map(_change_bytes)


@functools.cache
def _base() -> BaseTree:
    home = Path(tempfile.mkdtemp(dir=MEMORY))
    atexit.register(shutil.rmtree, home)
    return base_from(home, {"f": "a\nb\nc\n", "dir/g": "g\n"})


@given(patch=st.one_of(HOSTILE, MUTATED, st.binary(max_size=300)))
@example(patch=b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+z\n--- /dev/null\n+++ b/way/z\n@@ -0,0 +1 @@\n+x\n")
@example(patch=b"--- a/dir//g\n+++ b/dir//g\n@@ -1 +1 @@\n-x\n+y\n")
@example(patch=b"--- ./f\n+++ ./f\n@@ -1 +1 @@\n-x\n+y\n")
@example(patch=b"diff --git a/way b/way\nold mode 120000\nnew mode 100644\n")
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_patch_whatever_is_in_it_writes_outside_or_raises_anything_else(patch: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        around = write(Path(directory), {"outside/y": "y\n", "x": "precious\n"})
        tree = write(around / "tree", {"f": "a\nb\nc\n", "dir/g": "g\n", "way": Path("../outside")})
        inside = snapshot(tree)
        before = {name: what for name, what in snapshot(around).items() if not name.startswith("tree/")}
        try:
            applied = apply_diff(tree, patch, base=_base())
        except InvalidSubmission:
            assert snapshot(tree) == inside
        else:
            changed = {
                name for name in snapshot(tree).keys() | inside.keys() if snapshot(tree).get(name) != inside.get(name)
            }
            assert {os.fsdecode(os.fsencode(name)) for name in applied.touched} <= changed
        assert {name: what for name, what in snapshot(around).items() if not name.startswith("tree/")} == before
        assert not any(
            place.is_symlink() and place.name != "way" and ".." in str(place.readlink()) for place in tree.rglob("*")
        )


HOSTILE_PATHS = {
    "deep": (b"/".join([b"d"] * 200), "is nested deeper than 128 levels"),
    "long": (b"/".join([b"d" * 250] * 13), "is longer than 3000 bytes"),
    "long name": (b"n" * 256, "has a name of more than 255 bytes"),
}


@pytest.mark.parametrize(("path", "reason"), HOSTILE_PATHS.values(), ids=HOSTILE_PATHS.keys())
def test_a_path_that_nobody_could_handle_is_refused(path: bytes, reason: str, tmp_path: Path) -> None:
    patch = b"diff --git a/%b b/%b\nnew file mode 100644\n--- /dev/null\n+++ b/%b\n@@ -0,0 +1 @@\n+x\n" % (
        path,
        path,
        path,
    )
    with pytest.raises(InvalidSubmission, match=reason) as refused:
        apply_diff(tmp_path, patch)
    assert refused.value.cause is Cause.UNSAFE_SUBMISSION
    assert len(str(refused.value)) < 500
    assert list(tmp_path.iterdir()) == []


def test_a_patch_that_makes_very_many_directories_is_too_large(tmp_path: Path) -> None:
    paths = [b"%d/%b" % (number, b"d/" * 100 + b"x") for number in range(300)]
    files = [
        b"diff --git a/%b b/%b\nnew file mode 100644\n--- /dev/null\n+++ b/%b\n@@ -0,0 +1 @@\n+x\n" % (p, p, p)
        for p in paths
    ]
    with pytest.raises(InvalidSubmission, match="writes in more than 20000 directories") as refused:
        apply_diff(tmp_path, b"".join(files))
    assert refused.value.cause is Cause.TOO_LARGE
