import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.disk_names import MAX_PIECE_BYTES, disk_name
from proctor.core.errors import InvalidData

ANY_ID = st.text(alphabet=st.characters(exclude_categories=[]), max_size=300)


@pytest.mark.parametrize(
    ("task_id", "name"),
    [
        ("django__django-11099", "django__django-11099"),
        ("a/b", "a%2fb"),
        ("..", "%2e."),
        (".", "%2e"),
        (".hidden", "%2ehidden"),
        ("", "%"),
        ("%", "%25"),
        ("a~2", "a%7e2"),
        ("tests/x.py::t[a|b c]", "tests%2fx.py%3a%3at%5ba%7cb%20c%5d"),
        ("é", "%c3%a9"),
        ("nul\0", "nul%00"),
    ],
)
def test_names_stay_readable_and_hold_only_plain_characters(task_id: str, name: str) -> None:
    assert disk_name(task_id) == name
    assert task_id_of(name) == task_id


@given(ANY_ID)
def test_every_id_can_be_read_back_from_its_name(task_id: str) -> None:
    assert task_id_of(disk_name(task_id)) == task_id


@given(ANY_ID)
def test_every_piece_of_a_name_fits_a_file_system(task_id: str) -> None:
    pieces = disk_name(task_id).split("/")
    assert all(0 < len(os.fsencode(piece)) <= MAX_PIECE_BYTES + 3 for piece in pieces)
    assert not any(piece in {".", ".."} or piece.startswith(".") for piece in pieces)
    assert all(piece.endswith("~") for piece in pieces[:-1])
    assert "~" not in pieces[-1]


@given(ANY_ID, ANY_ID)
def test_two_ids_never_share_a_name(one: str, other: str) -> None:
    assert (disk_name(one) == disk_name(other)) == (one == other)


def test_a_very_long_id_is_a_real_file(tmp_path: Path) -> None:
    path = tmp_path / (disk_name("x" * 900) + ".json")
    path.parent.mkdir(parents=True)
    path.touch()
    assert task_id_of(path.relative_to(tmp_path).as_posix().removesuffix(".json")) == "x" * 900


def test_an_absurdly_long_id_is_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidData, match="too long"):
        disk_name("é" * 5000)


def task_id_of(name: str) -> str:
    """The id that `disk_name` turned into this name."""
    if name == "%":
        return ""
    raw = bytearray()
    rest = name.replace("~/", "")
    while rest:
        if rest[0] == "%":
            raw.append(int(rest[1:3], 16))
            rest = rest[3:]
        else:
            raw.append(ord(rest[0]))
            rest = rest[1:]
    return raw.decode("utf-8", "surrogatepass")
