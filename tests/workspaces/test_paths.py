import pytest

from proctor.workspaces.paths import display_path, is_git_name, link_escapes, unsafe_reason


@pytest.mark.parametrize(
    "name",
    [
        b".git",
        b".GIT",
        b".Git",
        b".git.",
        b".git ",
        b".git . .",
        b".git::$INDEX_ALLOCATION",
        b"git~1",
        b"GIT~2",
        ".g\u200cit".encode(),
        "\ufeff.git".encode(),
        ".gi\u202et".encode(),
    ],
)
def test_dot_git_is_known_in_every_spelling(name: bytes) -> None:
    assert is_git_name(name)
    assert unsafe_reason(b"a/" + name + b"/config") == "leads into .git"
    assert unsafe_reason(b"a\\" + name) == "leads into .git"


@pytest.mark.parametrize("name", [b".gitignore", b".github", b"git", b"x.git", b".gi", b"git~", b"\xff.git", b""])
def test_names_that_only_look_like_dot_git_are_names(name: bytes) -> None:
    assert not is_git_name(name)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (b"", "is empty"),
        (b"a\0b", "holds a NUL byte"),
        (b"/etc/passwd", "is absolute"),
        (b"\\\\host\\share", "is absolute"),
        (b"C:\\x", "is absolute"),
        (b"c:/x", "is absolute"),
        (b"..", "leaves the workspace through .."),
        (b"a/../../b", "leaves the workspace through .."),
        (b"a\\..\\b", "leaves the workspace through .."),
    ],
)
def test_a_path_that_leaves_the_workspace_is_unsafe(path: bytes, reason: str) -> None:
    assert unsafe_reason(path) == reason


@pytest.mark.parametrize("path", [b"a", b"a/b", b"...", b"a..b/..c", b"dev-x\\x2dy.swap", b"\xff", b"C:x", b"-n"])
def test_an_odd_path_that_stays_inside_is_safe(path: bytes) -> None:
    assert unsafe_reason(path) is None


@pytest.mark.parametrize(
    ("path", "target", "leaves"),
    [
        (b"a", b"b", False),
        (b"a", b".", False),
        (b"d/a", b"../b", False),
        (b"d/e/a", b"../../b/c", False),
        (b"a", b"/etc", True),
        (b"a", b"..", True),
        (b"d/a", b"../../b", True),
        (b"a", b"./../b", True),
        (b"a", b"b/../..", True),
        (b"a", b"b/../c", True),  # b may be a link to somewhere higher up
        (b"a", b"b//./c", False),
    ],
)
def test_a_link_stays_inside_only_if_nothing_on_its_way_could_be_elsewhere(
    path: bytes, target: bytes, leaves: bool
) -> None:
    assert link_escapes(path, target) is leaves


def test_a_name_that_is_not_text_can_be_shown() -> None:
    assert display_path(b"caf\xc3\xa9 \xff") == "café \\xff"
