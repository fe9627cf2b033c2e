"""The one way in for files that users bring. What is in them: tests/cli/test_untrusted_files.py."""

import json
import os
import threading
from pathlib import Path

import pytest

from proctor.core.errors import InvalidData, UsageError
from proctor.core.user_files import (
    MAX_DEPTH,
    BoundExceeded,
    check_json,
    parse_json,
    parse_toml,
    parse_yaml,
    read_limited,
    read_user_file,
    read_user_lines,
)


def test_a_file_that_a_user_names_is_text_with_or_without_the_mark_of_its_editor(tmp_path: Path) -> None:
    for written in ("a: ü\n".encode(), "a: ü\n".encode("utf-8-sig")):
        (tmp_path / "given").write_bytes(written)
        assert read_user_file(tmp_path / "given", "the list") == "a: ü\n"
    (tmp_path / "given").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="given: cannot read the list: it is not UTF-8 text"):
        read_user_file(tmp_path / "given", "the list")
    with pytest.raises(UsageError, match="nowhere: cannot read the list: No such file"):
        read_user_file(tmp_path / "nowhere", "the list")


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(b"x" * 100)
    assert read_limited(tmp_path / "given", limit=100) == b"x" * 100
    with pytest.raises(BoundExceeded, match="it is larger than"):
        read_limited(tmp_path / "given", limit=99)
    os.truncate(tmp_path / "given", 1 << 40)
    with pytest.raises(UsageError, match="cannot read the list: it is larger than 64 MiB"):
        read_user_file(tmp_path / "given", "the list")


def test_a_pipe_of_the_shell_is_read_and_another_is_not_waited_for(tmp_path: Path) -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(b"from a program")

    writer = threading.Thread(target=write)
    writer.start()
    assert read_limited(Path(f"/dev/fd/{reading}")) == b"from a program"
    writer.join()
    os.close(reading)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BoundExceeded, match="not a plain file"):
        read_limited(tmp_path / "pipe")
    with pytest.raises(InvalidData, match="not a plain file"):
        list(read_user_lines(tmp_path / "pipe", "the rows"))


def test_lines_come_one_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\n\nb")
    assert list(read_user_lines(tmp_path / "lines", "the rows")) == [b"a\n", b"\n", b"b"]


def test_brackets_in_texts_are_no_levels() -> None:
    texts = ["[" * 1000, '"' + "[" * 1000, "\\" + "{" * 1000, '\\"' + "[" * 1000]
    assert parse_json(json.dumps(texts)) == texts
    check_json(json.dumps({"[" * 1000: texts}).encode())


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_json_is_read_as_deep_as_the_limit_and_no_deeper(opening: str, closing: str) -> None:
    parse_json(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH)
    with pytest.raises(BoundExceeded, match="nested too deeply"):
        parse_json(opening * (MAX_DEPTH + 1) + "1" + closing * (MAX_DEPTH + 1))


def test_a_long_number_is_refused_and_a_long_text_of_digits_is_not() -> None:
    assert parse_json('["1%s"]' % ("0" * 500)) == ["1" + "0" * 500]
    for parse, text in ((parse_json, "[1%s]"), (parse_yaml, "a: 1%s"), (parse_toml, "a = 1%s")):
        with pytest.raises(BoundExceeded, match="digits"):
            parse(text % ("0" * 500))
    assert parse_yaml(f"a: '1{'0' * 500}'") == {"a": "1" + "0" * 500}


def test_ordinary_yaml_and_toml_is_read() -> None:
    assert parse_yaml("base: &base {a: 1}\nmore:\n  <<: *base\n  b: [*base, *base]") == {
        "base": {"a": 1},
        "more": {"a": 1, "b": [{"a": 1}, {"a": 1}]},
    }
    assert parse_yaml('{"a": 1e3, b: x}') == {"a": "1e3", "b": "x"}  # YAML, since JSON has no bare words
    assert parse_yaml('{"a": 1e3}') == {"a": 1000.0}
    assert parse_yaml("") is None
    assert parse_toml("[a.b.c]\nd.e = 1") == {"a": {"b": {"c": {"d": {"e": 1}}}}}


def test_broken_texts_are_value_errors_of_one_line() -> None:
    for parse, text in ((parse_json, "{"), (parse_yaml, "a: [1"), (parse_toml, "a = ")):
        with pytest.raises(ValueError) as broken:
            parse(text)
        assert "\n" not in str(broken.value)
