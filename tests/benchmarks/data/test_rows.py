"""Rows of a data set, in every form that one is published in."""

import csv
import json
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from proctor.benchmarks.data import read_rows
from proctor.core.errors import InvalidData, UsageError

ROWS = [{"id": "a|b c", "patch": "line\r\nline\n", "tests": ["x", "y"]}, {"id": "é", "patch": "", "tests": []}]


def test_the_same_rows_come_from_parquet_json_lines_and_json(tmp_path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in ROWS))
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    (tmp_path / "by_id.json").write_text(json.dumps({row["id"]: row for row in ROWS}, ensure_ascii=False))
    for name in ("rows.parquet", "rows.jsonl", "rows.json", "by_id.json"):
        assert read_rows(tmp_path / name) == ROWS, name


def test_a_folder_gives_the_rows_of_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"id": name, "n": 1}))
    (tmp_path / "README.md").write_text("not rows")
    assert [row["id"] for row in read_rows(tmp_path)] == ["a", "b"]


@given(rows=st.lists(st.fixed_dictionaries({"id": st.text(), "log": st.text()}), min_size=1))
def test_csv_gives_back_every_text(rows: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("csv") / "rows.csv"
    storable = [
        {key: value.replace("\0", "").encode("utf-8", "ignore").decode() for key, value in row.items()} for row in rows
    ]
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, ["id", "log"], quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(storable)
    assert read_rows(file) == storable


def test_a_field_larger_than_the_csv_module_expects_is_read(tmp_path: Path) -> None:
    (tmp_path / "big.csv").write_text(f"id,log\na,{'x' * 300_000}\n")
    assert len(read_rows(tmp_path / "big.csv")[0]["log"]) == 300_000


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("rows.jsonl", b'{"id": 1}\n{"id"\n', "rows.jsonl:2"),
        ("rows.jsonl", b'{"id": 1}\n[]\n', "rows.jsonl:2"),
        ("rows.jsonl", b"\xff\xfe\n", "rows.jsonl:1"),
        ("rows.json", b'[{"id": 1}, 2]', "$[1]"),
        ("rows.json", b"[" * 5000, "rows.json"),
        ("rows.csv", b"id,log\nonly-one\n", "rows.csv:2"),
        ("rows.csv", b"id,log\n\xff,x\n", "rows.csv"),
        ("rows.parquet", b"PAR1 not really", "rows.parquet"),
    ],
)
def test_a_broken_file_is_named_with_the_place(tmp_path: Path, name: str, content: bytes, place: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidData) as caught:
        read_rows(tmp_path / name)
    assert place in str(caught.value)


@pytest.mark.parametrize("name", ["rows.txt", "absent.json", "empty"])
def test_a_file_without_rows_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "rows.txt").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError):
        read_rows(tmp_path / name)
