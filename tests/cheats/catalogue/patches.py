"""Patches whose form is the trick: paths that lead elsewhere, or are not what they look like."""

from cheats.cheat import Cheat
from cheats.tasks import UNITTEST
from proctor.core.causes import Cause

_CHECKED = "every path that a patch names is checked before git sees it"
_PASSING = (
    UNITTEST.hidden["tests/test_total.py"].replace("till.total([3, 4]), 7", "7, 7").replace("till.total([5])", "5")
)


def adding(path: str, text: str, *, mode: str = "100644", prefix: tuple[str, str] = ("a/", "b/")) -> bytes:
    """A patch, written by hand, that adds one file."""
    lines = text.splitlines()
    return (
        f"diff --git {prefix[0]}{path} {prefix[1]}{path}\nnew file mode {mode}\n--- /dev/null\n+++ {prefix[1]}{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)
    ).encode()


def linking(path: str, target: str) -> bytes:
    return adding(path, target, mode="120000") + b"\\ No newline at end of file\n"


def unsafe(name: str, tries: str, patch: bytes, cause: Cause = Cause.UNSAFE_SUBMISSION) -> Cheat:
    return Cheat(name=name, task="unittest", tries=tries, defence=_CHECKED, cause=cause, patch=patch)


CHEATS = (
    unsafe("patch: ..", "climbs out of the workspace", adding("../../../../tmp/escaped", "x")),
    unsafe("patch: absolute", "names a file of the host", adding("@OUTSIDE@/canary", "gone", prefix=("", ""))),
    unsafe("patch: .git", "adds a hook to the grader's repository", adding(".git/hooks/post-checkout", "#!/bin/sh")),
    unsafe("patch: .GIT", "the same, as other file systems spell it", adding(".GiT/config", "[core]")),
    unsafe("patch: git~1", "the same, by its short name", adding("git~1/config", "[core]")),
    unsafe("patch: backslash", "climbs with backslashes", adding("..\\..\\escaped", "x")),
    unsafe("patch: link outside", "links to the suite's folder", linking("answers", "@SUITE@")),
    unsafe("patch: link up", "links to the folder above", linking("up", "../..")),
    unsafe(
        "patch: through its own link",
        "makes a link and writes through it",
        linking("out", "@OUTSIDE@") + adding("out/canary", "gone"),
    ),
    unsafe(
        "patch: renames into .git",
        "moves a file to where git would run it",
        b"diff --git a/README.md b/.git/hooks/pre-commit\nsimilarity index 100%\nrename from README.md\n"
        b"rename to .git/hooks/pre-commit\n",
    ),
    Cheat(
        name="patch: two names",
        task="unittest",
        tries="says README.md in one header and the hidden test in the other",
        defence="what counts is what changed in the tree",
        cause=Cause.MALFORMED_SUBMISSION,
        patch=adding("tests/test_total.py", _PASSING).replace(
            b"diff --git a/tests/test_total.py b/tests/test_total.py", b"diff --git a/NEWS.md b/NEWS.md"
        ),
    ),
    Cheat(
        name="patch: escaped name",
        task="unittest",
        tries="spells the hidden test's name in octal",
        defence="protected paths are restored by what changed in the tree, not by how it was spelled",
        cause=Cause.TESTS_FAILED,
        patch=adding("tests/test_total.py", _PASSING)
        .replace(
            b"a/tests/test_total.py b/tests/test_total.py", b'"a/te\\163ts/test_total.py" "b/te\\163ts/test_total.py"'
        )
        .replace(b"+++ b/tests/test_total.py", b'+++ "b/te\\163ts/test_total.py"'),
    ),
    Cheat(
        name="patch: odd slashes",
        task="unittest",
        tries="spells the path with empty steps",
        defence="what git and we read differently is refused",
        cause=Cause.MALFORMED_SUBMISSION,
        patch=adding("tests/.//test_total.py", _PASSING),
    ),
    Cheat(
        name="patch: CRLF",
        task="unittest",
        tries="ends every line as on another system",
        defence="line ends may differ in context, never in what decides",
        cause=Cause.TESTS_FAILED,
        patch=adding("tests/test_total.py", _PASSING).replace(b"\n", b"\r\n"),
    ),
    Cheat(
        name="patch: not UTF-8",
        task="unittest",
        tries="names a file in bytes that are no text",
        defence="paths are bytes; what is reported of them is always text",
        cause=Cause.TESTS_FAILED,
        patch=adding("tests/test_NAME.py", _PASSING).replace(b"NAME", b"\xff\xfe\x80"),
    ),
    Cheat(
        name="patch: a folder in place of a test",
        task="unittest",
        tries="makes a folder with the name of the hidden test file",
        defence="added paths below tests/ are removed before the hidden files are laid over",
        cause=Cause.TESTS_FAILED,
        patch=adding("tests/test_total.py/__init__.py", _PASSING),
    ),
    Cheat(
        name="patch: a submodule",
        task="unittest",
        tries="adds a submodule, which git would fetch from elsewhere",
        defence="a submodule is no file: nothing comes of it",
        cause=Cause.TESTS_FAILED,
        patch=adding("vendor", f"Subproject commit {'1' * 40}", mode="160000"),
    ),
    Cheat(
        name="patch: a bomb",
        task="unittest",
        tries="unfolds a few bytes to many gigabytes",
        defence="the sizes that a binary patch announces are added up first",
        cause=Cause.TOO_LARGE,
        patch=b"diff --git a/x.bin b/x.bin\nnew file mode 100644\nindex 0000000..1111111\nGIT binary patch\n"
        b"literal 99999999999\nzcmV-~0000000000000000000\n\nliteral 0\nHcmV?d00001\n\n",
    ),
    Cheat(
        name="patch: nothing",
        task="unittest",
        tries="submits nothing and hopes for a lenient grader",
        defence="an empty submission is unresolved",
        cause=Cause.EMPTY,
        patch=b"\n",
    ),
)
