from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.errors import UsageError
from proctor.sandboxes.layout import check_name, check_sockets_fit, default_root, socket_link


@pytest.mark.parametrize("name", ["a", "0", "bench-1", "a--b", "x" * 63])
def test_valid_sandbox_names_are_accepted(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc",
        "-a",
        "A",
        "a_b",
        "a b",
        "a\n",
        "ä",
        "a\0b",
        "~",
        "x" * 64,
        "x" * 9999,
        "\udc80",
    ],
)
def test_bad_names_are_refused_in_one_short_sentence(name: str) -> None:
    with pytest.raises(UsageError) as error:
        check_name(name)
    sentence = error.value.sentence
    assert sentence.isprintable()
    assert len(sentence) < 200
    assert error.value.exit_code == 2


@settings(deadline=None)
@given(st.text())
def test_whatever_passes_is_one_plain_file_name(name: str) -> None:
    try:
        check_name(name)
    except UsageError:
        return
    assert Path("/root", name).parent == Path("/root")
    assert not name.startswith(".")


def test_the_root_comes_from_the_environment_or_is_below_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_root({}) == Path("/home/somebody/.h2/sandboxes")
    assert default_root({"PROCTOR_SANDBOXES": ""}) == Path("/home/somebody/.h2/sandboxes")
    assert default_root({"PROCTOR_SANDBOXES": "/mnt/boxes"}) == Path("/mnt/boxes")
    assert default_root({"PROCTOR_SANDBOXES": "~/boxes"}) == Path("/home/somebody/boxes")


def test_the_socket_link_is_the_one_that_h2_makes() -> None:
    # What h2 0.3.2 left in the temporary directory for this H2_DIR.
    home = Path("/tmp/a-directory-whose-name-makes-its-path-57-characters-long")
    assert socket_link(home, Path("/tmp/tt")) == Path("/tmp/tt/h2-d6849093f54c8f56")


def test_a_short_home_needs_no_socket_link() -> None:
    assert socket_link(Path("/" + "x" * 56), Path("/tmp")) is None
    assert socket_link(Path("/" + "x" * 57), Path("/tmp")) is not None


def test_only_a_home_in_which_no_socket_could_be_opened_is_refused() -> None:
    long = "/" + "x" * 90
    check_sockets_fit(Path("/short"), {"TMPDIR": long})
    check_sockets_fit(Path(long), {})
    with pytest.raises(UsageError, match="too long"):
        check_sockets_fit(Path(long), {"TMPDIR": long})
