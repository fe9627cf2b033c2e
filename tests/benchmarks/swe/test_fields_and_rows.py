"""Rows of the four data sets, with every way in which their fields are written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paths import SAMPLES, sample_data, shared_data
from proctor.benchmarks.data import read_rows
from proctor.benchmarks.swe.fields import decode_json_string, list_field, object_field, text_field
from proctor.benchmarks.swe.row_loading import evo_rows, rows_from_copy
from proctor.benchmarks.swe.rows import (
    evo_row,
    feature_row,
    pro_row,
    pro_tag,
    read_swe_rows,
    swe_bench_image,
    swe_bench_row,
)
from proctor.benchmarks.swe.sources import ace_bench, swe_bench_pro, swe_bench_verified, swe_evo
from proctor.core.errors import InvalidData, UsageError

ODD = ["tests/a.py::test_x[The", "file | suite name", 'it\'s "quoted"', "tab\there", "café", " spaced ", "a\\nb"]
BASIC: dict[str, Any] = {
    "instance_id": "org__repo-1",
    "repo": "org/repo",
    "base_commit": "0" * 40,
    "patch": "diff --git a/x b/x\n",
    "test_patch": "",
    "problem_statement": "Broken.\r\nSee above.",
    "FAIL_TO_PASS": '["a"]',
    "PASS_TO_PASS": "[]",
}


@pytest.mark.parametrize("written", [ODD, json.dumps(ODD), repr(ODD), json.dumps(ODD, ensure_ascii=False)])
def test_a_list_is_read_from_any_form_byte_for_byte(written: Any) -> None:
    assert list_field({"FAIL_TO_PASS": written}, "FAIL_TO_PASS") == tuple(ODD)
    assert list_field({"fail_to_pass": written}, "FAIL_TO_PASS") == tuple(ODD)


@given(st.lists(st.text()))
def test_whatever_the_ids_are_both_ways_of_writing_them_give_them_back(ids: list[str]) -> None:
    assert list_field({"x": repr(ids)}, "x", optional=True) == tuple(ids)
    assert list_field({"x": json.dumps(ids)}, "x", optional=True) == tuple(ids)


@pytest.mark.parametrize("written", ["[1]", "{}", "nonsense", "__import__('os').system('id')", 7, [["a"]], "[" * 9999])
def test_a_value_that_is_not_a_list_of_strings_is_refused(written: Any) -> None:
    with pytest.raises(InvalidData, match="not a list of strings"):
        list_field({"instance_id": "i", "FAIL_TO_PASS": written}, "FAIL_TO_PASS")


def test_a_text_that_is_a_json_string_is_read_and_others_stay() -> None:
    assert decode_json_string(json.dumps('## Title\nwith "quotes"')) == '## Title\nwith "quotes"'
    assert decode_json_string('"Hello" and "bye"') == '"Hello" and "bye"'
    assert decode_json_string("plain \\n text") == "plain \\n text"
    assert decode_json_string('"') == '"'


def test_a_missing_or_wrong_field_is_named_with_its_row() -> None:
    with pytest.raises(InvalidData, match="org__repo-1: has no 'repo'"):
        swe_bench_row({**BASIC, "repo": ""})
    with pytest.raises(InvalidData, match="not a string but int"):
        text_field({"instance_id": "i", "version": 3}, "version", default="")
    with pytest.raises(InvalidData, match="not an object"):
        object_field({"instance_id": "i", "repo_settings": "[]"}, "repo_settings")


def test_a_row_without_an_image_has_the_official_one() -> None:
    assert swe_bench_row(BASIC).image == "swebench/sweb.eval.x86_64.org_1776_repo-1:latest"
    assert swe_bench_image("Org__Repo-12") == "swebench/sweb.eval.x86_64.org_1776_repo-12:latest"


def test_the_tag_of_pro_is_made_as_its_images_are_named() -> None:
    sha = "a" * 40
    assert pro_tag(f"instance_NodeBB__NodeBB-{sha}-vnan", "NodeBB/NodeBB") == f"nodebb.nodebb-NodeBB__NodeBB-{sha}"
    assert pro_tag(f"instance_element-hq__element-web-{sha}-vnan", "element-hq/element-web").startswith(
        "element-hq.element-element-hq__element-web-"
    )
    assert len(pro_tag("instance_" + "x" * 300, "a/b")) == 128


def test_bad_rows_are_reported_and_the_good_ones_are_in_order() -> None:
    rows = [{**BASIC, "instance_id": "b"}, {**BASIC, "instance_id": "a"}, {**BASIC, "instance_id": "c", "repo": None}]
    good, bad = read_swe_rows(rows, swe_bench_row)
    assert [row.instance_id for row in good] == ["a", "b"]
    assert [(row.task_id, row.problems) for row in bad] == [("c", ("has no 'repo'",))]
    with pytest.raises(InvalidData, match="there twice"):
        read_swe_rows([BASIC, BASIC], swe_bench_row)


def test_the_level_of_a_feature_is_the_last_part_of_its_id() -> None:
    row = {**BASIC, "image_name": "x", "repo_settings": '{"timeout_run": 600}', "patch": ""}
    assert feature_row({**row, "instance_id": "a__b.1.test_lv1.2.lv2"}).level == 2
    assert feature_row({**row, "instance_id": "a__b.1.test_x.2.lv1"}).level == 1
    assert feature_row(row).settings == {"timeout_run": 600}


@pytest.mark.parametrize("form", ["rows.jsonl", "test.parquet"])
def test_a_few_rows_of_verified_load_from_either_form(form: str, tmp_path: Path) -> None:
    file = sample_data("swe_bench_verified", "rows.jsonl")
    if form == "test.parquet":
        written = [json.loads(line) for line in file.read_text().splitlines()]
        file = tmp_path / form
        pq.write_table(pa.Table.from_pylist(written), file)
    good, bad = read_swe_rows(rows_from_copy(file), swe_bench_row)
    assert ([row.instance_id for row in good], bad) == (["acme__abacus-31", "acme__abacus-7", "acme__ledger-102"], [])
    assert [len(row.pass_to_pass) for row in good] == [2, 2, 1]
    assert good[0].pass_to_pass[1] == 'tests/test_rounding.py::test_words[it\'s "odd"]'
    assert {row.eval_type for row in good} == {"pass_and_fail"}


@pytest.mark.parametrize("data", [pytest.param(shared_data, id="real-sample")])
def test_all_rows_of_verified_load(data: Callable[..., Path]) -> None:
    good, bad = read_swe_rows(rows_from_copy(data("swe_bench_verified", "test.parquet")), swe_bench_row)
    assert (len(good), bad) == (500, [])
    assert sum(len(row.pass_to_pass) for row in good) // 500 == 120
    assert {row.eval_type for row in good} == {"pass_and_fail"}


@pytest.mark.parametrize(
    ("data", "count"),
    [pytest.param(sample_data, 8, id="our-sample"), pytest.param(shared_data, 80, id="real-sample")],
)
def test_all_rows_of_the_pro_sample_load_with_their_texts_unquoted(data: Callable[..., Path], count: int) -> None:
    good, bad = read_swe_rows(rows_from_copy(data("swe_bench_pro", "sample.jsonl")), pro_row)
    assert (len(good), bad) == (count, [])
    assert not any(row.problem_statement.startswith('"') and row.problem_statement.endswith('"') for row in good)
    assert all(row.image.startswith("jefzda/sweap-images:") for row in good)


@pytest.mark.parametrize(
    ("data", "count"),
    [pytest.param(sample_data, 6, id="our-sample"), pytest.param(shared_data, 15, id="real-sample")],
)
def test_all_task_files_of_evo_load(data: Callable[..., Path], count: int) -> None:
    good, bad = read_swe_rows(evo_rows(data("swe_evo", "tasks")), evo_row)
    assert (len(good), bad) == (count, [])
    assert all(row.start_version and row.test_cmds.startswith("pytest") for row in good)


FLASK = ("pallets__flask-5014", "2.3", "werkzeug==2.3.7", "tests/test_blueprints.py::test_empty_name_not_allowed")
ABACUS = ("acme__abacus-7", "1.2", "pytest==8.3.2", "tests/test_sums.py::test_total_of_nothing")


@pytest.mark.parametrize(
    ("data", "count", "expected"),
    [pytest.param(sample_data, 3, ABACUS, id="our-sample"), pytest.param(shared_data, 10, FLASK, id="real-sample")],
)
def test_task_folders_load_as_far_as_they_are_there(
    data: Callable[..., Path], count: int, expected: tuple[str, str, str, str]
) -> None:
    name, version, pin, label = expected
    rows = rows_from_copy(data("swe_bench_tasks"))
    assert len(rows) == count
    one = next(row for row in rows if row["instance_id"] == name)
    assert one["version"] == version
    assert pin in one["environment_yml"]
    whole = swe_bench_row(one | {"patch": "diff --git a/x b/x\n"})
    assert whole.fail_to_pass == (label,)


@pytest.mark.parametrize("data", SAMPLES)
def test_prompts_of_features_are_shown_as_they_are_published(data: Callable[..., Path]) -> None:
    files = list(data("ace_bench", "lite").rglob("problem_statement.md"))
    assert files
    for file in files:
        prompt = file.read_text()
        row = {**BASIC, "image_name": "x", "problem_statement": prompt, "instance_id": f"a.{file.parent.name}"}
        assert feature_row(row).problem_statement == prompt


async def test_data_is_fetched_from_a_copy_and_opened(own_cache: Path, tmp_path: Path) -> None:
    full = {**BASIC, "eval_script": ": tests\n", "log_parser": "parse_log_pytest"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(full) + "\n" + json.dumps({**BASIC, "instance_id": "old"}) + "\n")
    with pytest.raises(UsageError, match="bench fetch swe_bench_verified"):
        swe_bench_verified.open("lite")
    got = await swe_bench_verified.fetch("lite", tmp_path / "rows.jsonl", lambda _: None)
    assert (got.split, got.tasks) == ("lite", 2)
    benchmark = swe_bench_verified.open("lite")
    assert [task.id for task in benchmark.tasks()] == ["org__repo-1"]
    assert "eval_script" in benchmark.invalid_tasks()[0].problems[0]
    # The same rows in another form, and another order, are the same data.
    (tmp_path / "rows.json").write_text(json.dumps([{**BASIC, "instance_id": "old"}, full]))
    again = await swe_bench_verified.fetch("lite", tmp_path / "rows.json", lambda _: None)
    assert again.digest == got.digest


async def test_task_folders_are_taken_by_the_sets_that_they_are_of(own_cache: Path, tmp_path: Path) -> None:
    for name, sets, split in (
        ("both", ["SWE-bench/SWE-bench", "SWE-bench/SWE-bench_Verified"], "test"),
        ("full", ["SWE-bench/SWE-bench"], "test"),
        ("dev", ["SWE-bench/SWE-bench", "SWE-bench/SWE-bench_Verified"], "dev"),
    ):
        folder = tmp_path / "tasks" / name
        folder.mkdir(parents=True)
        fields = {"instance_id": name, "repo": "a/b", "base_commit": "0", "datasets": sets, "split": split}
        (folder / "task.yaml").write_text(json.dumps(fields | {"version": 1.10}))
        (folder / "tests.json").write_text('{"FAIL_TO_PASS": ["t"], "PASS_TO_PASS": []}')
        for file in ("problem_statement.md", "gold.patch", "test.patch", "eval.sh"):
            (folder / file).write_text("x\r\n")
    for split, tasks in (("verified", 1), ("full", 2)):
        got = await swe_bench_verified.fetch(split, tmp_path / "tasks", lambda _: None)
        assert got.tasks == tasks


async def test_a_file_of_something_else_is_refused(own_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('[{"name": "something else"}]')
    for source in (swe_bench_verified, swe_bench_pro, swe_evo, ace_bench):
        with pytest.raises(InvalidData, match=f"no row is one of {source.name}"):
            await source.fetch(None, tmp_path / "rows.json", lambda _: None)


async def test_pro_is_fetched_from_a_clone_with_the_rows_in_it(own_cache: Path, tmp_path: Path) -> None:
    row = {**BASIC, "before_repo_set_cmd": "a\nb", "selected_test_files_to_run": "['t.py']", "dockerhub_tag": "t"}
    scripts = tmp_path / "run_scripts" / "org__repo-1"
    scripts.mkdir(parents=True)
    (scripts / "run_script.sh").write_text("echo\n")
    (scripts / "parser.py").write_text("pass\n")
    docker = tmp_path / "dockerfiles" / "instance_dockerfile" / "org__repo-1"
    docker.mkdir(parents=True)
    (docker / "Dockerfile").write_text("FROM x\nENV A=1\n")
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    await swe_bench_pro.fetch(None, tmp_path, lambda _: None)
    made = swe_bench_pro.open(None).rows["org__repo-1"]
    assert (made.run_script, made.parser, made.dockerfiles) == ("echo\n", "pass\n", ("FROM x\nENV A=1\n",))
    # The rows alone can be listed, but not graded.
    await swe_bench_pro.fetch(None, tmp_path / "rows.jsonl", lambda _: None)
    assert "run_script.sh" in swe_bench_pro.open(None).invalid_tasks()[0].problems[0]


def test_a_csv_of_pro_reads_like_its_json(tmp_path: Path) -> None:
    import csv

    row = {**BASIC, "before_repo_set_cmd": "a\nb", "selected_test_files_to_run": repr(["t.py"]), "dockerhub_tag": "t"}
    row["FAIL_TO_PASS"] = repr(ODD)
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    assert pro_row(read_rows(tmp_path / "rows.csv")[0]) == pro_row(row)
