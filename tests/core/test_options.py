"""Options: how a value is read, whichever way it comes, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from proctor.core.environment import Network
from proctor.core.errors import UsageError
from proctor.core.options import InvalidValue, option_fields, read_options, resolve_aliases
from proctor.core.request import EvaluateRequest, RunRequest

FIELDS = option_fields(RunRequest)


@pytest.mark.parametrize(
    ("text", "size"), [("40GB", 40 * 10**9), ("1.5TiB", 3 << 39), ("500 mb", 500 * 10**6), ("7", 7), ("2k", 2000)]
)
def test_a_size_is_read_as_people_write_it(text: str, size: int) -> None:
    assert FIELDS["image_disk"].read(text, Path(), text=True) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "40XB", "1e9", "40GBs"])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        FIELDS["image_disk"].read(text, Path(), text=True)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_turns", "7", 7),
        ("max_cost", "2.5", 2.5),
        ("isolation", "off", False),
        ("network", "none", Network.NONE),
        ("command", "solve '--with care'", ("solve", "--with care")),
        ("allowed_tools", "Bash(git *),Read", ("Bash(git *)", "Read")),
        ("agent_env", ("A=1", "B=x=y"), {"A": "1", "B": "x=y"}),
        ("tasks", ("a", "b"), ("a", "b")),
    ],
)
def test_the_command_line_and_python_come_to_the_same_value(name: str, text: Any, value: Any) -> None:
    assert FIELDS[name].read(text, Path(), text=True) == value
    assert FIELDS[name].read(value, Path()) == value


@pytest.mark.parametrize(
    ("name", "value"), [("max_turns", "7"), ("max_turns", True), ("max_cost", float("nan")), ("isolation", "off")]
)
def test_python_and_toml_have_types_of_their_own(name: str, value: object) -> None:
    with pytest.raises(InvalidValue):
        FIELDS[name].read(value, Path())


def test_files_are_relative_to_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text("a: b")
    (tmp_path / "out.txt").write_text("one\n# a remark\ntwo # slow\n")
    (tmp_path / "careful.md").write_text("Be careful.")
    given = {
        "image_map": "images.yaml",
        "exclude": "out.txt",
        "system_prompt": "@careful.md",
        "model": "script:able.yaml",
        "preset": "./mine",
    }
    assert read_options(RunRequest, given, folder=tmp_path) == {
        "image_map": {"a": "b"},
        "exclude": ("one", "two"),
        "system_prompt": "Be careful.",
        "model": f"script:{tmp_path}/able.yaml",
        "preset": f"{tmp_path}/mine",
    }


def test_a_refusal_names_the_option_as_it_was_given() -> None:
    with pytest.raises(UsageError, match=r"^max_turns must be a whole number from 1 to 1,000,000, not 0$"):
        read_options(RunRequest, {"max_turns": 0}, folder=Path())
    with pytest.raises(UsageError, match=r"^--docker-image must be a string, not ''$"):
        read_options(RunRequest, {"image": ""}, folder=Path(), command_line=True)


def test_an_older_name_is_read_and_a_misspelt_one_is_not() -> None:
    assert resolve_aliases(RunRequest, {"attempts": 3}, FIELDS) == {"trials": 3}
    with pytest.raises(UsageError, match="there is no option 'max_costs'; did you mean 'max_cost'"):
        resolve_aliases(RunRequest, {"max_costs": 3}, FIELDS)


def test_every_option_can_be_read_and_says_what_it_does() -> None:
    for record in (RunRequest, EvaluateRequest):
        for field in option_fields(record).values():
            assert field.option.help.endswith((".", "]")), field.name
            assert field.read(None, Path()) is None
            if field.default not in (None, (), {}):
                assert field.read(field.default, Path()) == field.default
