import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.benchmarks.suites.documents import InvalidDocument, decode_document
from proctor.benchmarks.suites.format import InstanceFile, ProctorSuiteFile
from proctor.benchmarks.suites.load import load_suite
from proctor.core.errors import InvalidData, ProctorError


def suite_document(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "proctor.suite@1",
        "suite_id": "mine",
        "instances": [{"id": "one", "path": "instances/one"}],
        **changes,
    }


def instance_document(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "proctor.instance@1",
        "instance_id": "one",
        "problem_statement_path": "issue.md",
        "repo_path": "repo",
        "eval": {"kind": "tests", "format": "unittest", "arguments": ["tests"], "fail_to_pass": ["t"]},
        **changes,
    }


def write_suite(folder: Path, suite: Any, instance: Any) -> Path:
    place = folder / "instances" / "one"
    (place / "repo").mkdir(parents=True)
    (place / "repo" / "a.py").write_text("a = 1\n")
    (place / "issue.md").write_text("Fix it.")
    (place / "instance.json").write_text(json.dumps(instance))
    file = folder / "suite.json"
    file.write_text(json.dumps(suite))
    return file


def test_a_suite_is_found_by_its_file_and_by_its_folder(tmp_path: Path) -> None:
    file = write_suite(tmp_path, suite_document(), instance_document())
    for where in (file, tmp_path):
        suite = load_suite(where)
        assert (suite.id, suite.path, suite.invalid) == ("mine", file, ())
        assert suite.instances[0].statement() == "Fix it."


def test_a_suite_is_found_further_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_suite(tmp_path, suite_document(), instance_document())
    monkeypatch.chdir(tmp_path / "instances" / "one")
    assert load_suite("suite.json").path == file


def test_a_suite_that_is_not_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidData, match="nowhere: there is no such suite; give the path"):
        load_suite("nowhere")


def test_every_problem_of_a_suite_file_is_named_with_its_place(tmp_path: Path) -> None:
    suite = suite_document(
        suite_id="",
        extra=1,
        instances=[{"id": "a b", "path": "../up"}, {"path": "x", "enabled": "yes"}],
        defaults={"determinism_runs": 0},
    )
    file = write_suite(tmp_path, suite, instance_document())
    with pytest.raises(InvalidDocument) as caught:
        load_suite(file)
    assert {problem.file for problem in caught.value.problems} == {str(file)}
    assert sorted({problem.path for problem in caught.value.problems}) == [
        "$",
        "$.defaults.determinism_runs",
        "$.instances[0].id",
        "$.instances[0].path",
        "$.instances[1]",
        "$.instances[1].enabled",
        "$.suite_id",
    ]
    assert any("does not leave its folder" in problem.message for problem in caught.value.problems)
    assert len(caught.value.details) == len(caught.value.problems)


def test_an_id_that_stands_twice_is_refused(tmp_path: Path) -> None:
    ref = {"id": "one", "path": "instances/one"}
    file = write_suite(tmp_path, suite_document(instances=[ref, ref]), instance_document())
    with pytest.raises(InvalidDocument, match=r"instances\[1\]\.id: the id 'one' is taken by instances\[0\]"):
        load_suite(file)


def test_a_key_that_stands_twice_is_refused() -> None:
    with pytest.raises(InvalidDocument, match="'suite_id' stands twice"):
        decode_document(b'{"suite_id": "a", "suite_id": "b"}', ProctorSuiteFile, file="suite.json")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"instance_id": "two"}, "$.instance_id"),
        ({"problem_statement_path": "nope.md"}, "$.problem_statement_path"),
        ({"repo_path": "nope"}, "$.repo_path"),
        ({"oracle": {"patch_kind": "unified-diff", "patch_path": "nope.diff"}}, "$.oracle.patch_path"),
        ({"oracle": {"patch_kind": "magic", "patch_path": "nope.diff"}}, "$.oracle.patch_kind"),
        ({"eval": {"kind": "tests", "format": "unittest", "hidden_path": "nope"}}, "$.eval.hidden_path"),
        ({"eval": {"kind": "tests", "format": "unittest", "command": ["x"]}}, "$.eval.command"),
        ({"eval": {"kind": "tests", "format": "tap"}}, "$.eval.command"),
        ({"eval": {"kind": "tests", "format": "tap", "command": ["x"], "arguments": ["y"]}}, "$.eval.arguments"),
        ({"eval": {"kind": "tests", "format": "junit", "command": ["x"]}}, "$.eval.command"),
        ({"eval": {"kind": "tests", "format": "unittest", "timeout_seconds": -1}}, "$.eval.timeout_seconds"),
        ({"eval": {"kind": "tests", "format": "unittest", "fail_to_pass": ["t"], "pass_to_pass": ["t"]}}, "$.eval"),
        ({"eval": {"kind": "guess"}}, "$.eval"),
        ({"tags": ["Upper"]}, "$.tags[0]"),
    ],
)
def test_a_bad_instance_is_kept_apart_with_its_problem(tmp_path: Path, changes: dict[str, Any], path: str) -> None:
    suite = load_suite(write_suite(tmp_path, suite_document(), instance_document(**changes)))
    assert suite.instances == ()
    assert [problem.path for problem in suite.invalid[0].problems] == [path]


def test_a_disabled_instance_is_left_out(tmp_path: Path) -> None:
    refs = [{"id": "one", "path": "instances/one", "enabled": False}]
    suite = load_suite(write_suite(tmp_path, suite_document(instances=refs), instance_document()))
    assert (suite.instances, suite.invalid) == ((), ())


def test_the_digest_changes_with_anything_that_a_verdict_depends_on(tmp_path: Path) -> None:
    file = write_suite(tmp_path, suite_document(), instance_document())
    repo = tmp_path / "instances" / "one" / "repo"

    def digest() -> str:
        return load_suite(file).instances[0].digest()

    seen = [digest()]
    (repo / "b.py").write_text("b = 2\n")
    seen.append(digest())
    (repo / "b.py").chmod(0o755)
    seen.append(digest())
    (repo / "link").symlink_to("b.py")
    seen.append(digest())
    assert len(set(seen)) == 4
    (tmp_path / "instances" / "one" / "issue.md").write_text("Fix it, please.")
    assert digest() == seen[-1], "the wording is not part of the grade"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    suite=st.fixed_dictionaries({}, optional=dict.fromkeys([*suite_document(), "defaults", "description"], JSON)),
    instance=st.fixed_dictionaries({}, optional=dict.fromkeys(InstanceFile.__struct_fields__, JSON)),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_no_file_makes_the_loader_raise_anything_but_its_own_errors(
    tmp_path_factory: pytest.TempPathFactory, suite: dict[str, Any], instance: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    with contextlib.suppress(ProctorError):
        load_suite(write_suite(folder, {**suite_document(), **suite}, {**instance_document(), **instance}))


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_raise_anything_but_its_own_errors(data: bytes) -> None:
    with pytest.raises(ProctorError):
        decode_document(data, ProctorSuiteFile, file="suite.json")


def test_a_nesting_bomb_is_one_sentence() -> None:
    with pytest.raises(InvalidDocument, match=r"nested too deeply|not JSON"):
        decode_document(b"[" * 100_000, ProctorSuiteFile, file="suite.json")
