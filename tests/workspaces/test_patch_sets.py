import copy
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proctor.core.causes import Cause
from proctor.core.submission import PatchKind
from proctor.workspaces import ApplyResult, InvalidSubmission, apply_patch, patch_sha256
from proctor.workspaces.patch_sets import apply_patch_set, read_patch_set
from workspaces_world import contents, snapshot, write
from x07_world import SUITES

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def _set(*targets: tuple[str, list[dict[str, Any]]]) -> bytes:
    patches = [{"path": path, "patch": operations} for path, operations in targets]
    return json.dumps({"schema_version": "x07.arch.patchset@0.1.0", "patches": patches}).encode()


def _operation(op: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **{key.rstrip("_"): value for key, value in rest.items()}}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(tmp_path / "tree", {"a.json": '{"list": [1, 2], "deep": {"x": 1.0}}', "text.txt": "no JSON\n"})


def _refused(tree: Path, data: bytes, cause: Cause) -> str:
    before = snapshot(tree.parent)
    with pytest.raises(InvalidSubmission) as caught:
        apply_patch_set(tree, data)
    assert caught.value.cause is cause, caught.value.sentence
    assert snapshot(tree.parent) == before
    return caught.value.sentence


def test_files_are_written_back_sorted_and_indented(tree: Path) -> None:
    data = _set(("a.json", [_operation("add", "/b", value={"é": "\u2028\x1f", "": []})]))
    assert apply_patch(tree, data, PatchKind.PATCH_SET) == ApplyResult(applied_with=None, touched=("a.json",))
    assert (tree / "a.json").read_text() == (
        '{\n  "b": {\n    "": [],\n    "é": "\u2028\\u001f"\n  },\n  "deep": {\n    "x": 1.0\n  },\n'
        '  "list": [\n    1,\n    2\n  ]\n}\n'
    )


def test_a_missing_file_is_null_and_is_created_with_its_directories(tree: Path) -> None:
    data = _set(
        ("new/dir/b.json", [_operation("test", "", value=None), _operation("add", "", value={"x": 1})]),
        ("./new//dir/b.json", [_operation("replace", "/x", value=2)]),
    )
    assert apply_patch_set(tree, data).touched == ("new/dir/b.json",)
    assert (tree / "new/dir/b.json").read_text() == '{\n  "x": 2\n}\n'


def test_numbers_keep_the_form_in_which_they_were_written(tree: Path) -> None:
    numbers = "[1.0, 1e400, -0.00, 1000000000000000000000000000000, 0.1e-7, 1E+2]"
    write(tree, {"a.json": numbers})
    data = b'{"schema_version":"x07.arch.patchset@0.1.0","patches":[{"path":"a.json","patch":[%s]}]}'
    apply_patch_set(tree, data % b'{"op":"add","path":"/-","value":123456789012345678901234567890.10}')
    written = (tree / "a.json").read_text()
    assert "".join(written.split()) == numbers.replace(" ", "")[:-1] + ",123456789012345678901234567890.10]"


@pytest.mark.parametrize(
    ("there", "asked", "equal"),
    [
        ("1", "1", True),
        ("1.0", "1.00", True),
        ("100.0", "1e2", True),
        ("0.0", "-0.0", True),
        ("1e400", "10e399", True),
        ("1", "1.0", False),
        ("1", "true", False),
        ("0", "false", False),
        ("0", "null", False),
        ('"1"', "1", False),
        ("1e400", "1e401", False),
        ("-1", "1", False),
        ("1" + "0" * 5000, "1" + "0" * 5000, True),
        ("1e" + "9" * 5000, "1e" + "8" * 5000, False),
        ('{"a":1,"b":[1]}', '{"b":[1],"a":1}', True),
        ('{"a":1}', '{"a":1,"b":1}', False),
        ("[1,2]", "[2,1]", False),
    ],
)
def test_values_are_equal_only_if_they_are_the_same_kind_of_value(
    tree: Path, there: str, asked: str, equal: bool
) -> None:
    write(tree, {"a.json": there})
    data = b'{"schema_version":"x07.arch.patchset@0.1.0","patches":[{"path":"a.json","patch":[%s]}]}'
    test = b'{"op":"test","path":"","value":%s}' % asked.encode()
    if equal:
        apply_patch_set(tree, data % test)
    else:
        assert "another one" in _refused(tree, data % test, Cause.DOES_NOT_APPLY)


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (_operation("replace", "/list/2", value=1), "no element 2 in an array of 2"),
        (_operation("replace", "/list/01", value=1), "'01' is not an index"),
        (_operation("replace", "/list/+1", value=1), "'+1' is not an index"),
        (_operation("replace", "/list/-1", value=1), "'-1' is not an index"),
        (_operation("replace", "/list/\uff11", value=1), "is not an index"),
        (_operation("replace", "/list/1e0", value=1), "is not an index"),
        (_operation("replace", "/list/-", value=1), "'-' is not an index"),
        (_operation("remove", "/list/-"), "'-' is not an index"),
        (_operation("add", "/list/3", value=1), "no element 3"),
        (_operation("add", "/list/" + "9" * 1000, value=1), "is not an index"),
        (_operation("add", "/no/where", value=1), "no key 'no'"),
        (_operation("remove", "/nothing"), "no key 'nothing'"),
        (_operation("remove", ""), "whole document"),
        (_operation("add", "/deep/x/y", value=1), "neither an object nor an array"),
        (_operation("add", "list", value=1), "starts with /"),
        (_operation("add", "/~2", value=1), "~ only in"),
        (_operation("add", "/~", value=1), "~ only in"),
        (_operation("move", "/deep/x", from_="/deep"), "into itself"),
        (_operation("copy", "/b", from_="/nothing"), "no key 'nothing'"),
        (_operation("test", "/deep/x", value=1), "another one"),
    ],
)
def test_an_operation_that_does_not_fit_says_which_and_why(tree: Path, operation: dict[str, Any], why: str) -> None:
    first = _operation("replace", "/list/0", value="changed")
    sentence = _refused(tree, _set(("new.json", []), ("a.json", [first, operation])), Cause.DOES_NOT_APPLY)
    assert sentence.startswith(f"a.json: operation 1 ({operation['op']} ")
    assert why in sentence


def test_when_the_last_file_does_not_fit_no_file_is_changed(tree: Path) -> None:
    good = [_operation("add", "/new", value=1)]
    bad = [_operation("remove", "/nothing")]
    _refused(
        tree,
        _set(("a.json", good), ("new.json", [_operation("add", "", value=1)]), ("a.json", bad)),
        Cause.DOES_NOT_APPLY,
    )


def test_a_file_that_is_not_json_cannot_be_patched(tree: Path) -> None:
    sentence = _refused(tree, _set(("text.txt", [_operation("add", "", value=1)])), Cause.DOES_NOT_APPLY)
    assert "text.txt: the file cannot be patched as JSON: not JSON: Expecting value at line 1, column 1" in sentence
    for content, why in [
        (b'{"a": 1, "a": 2}', "'a' is there twice"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b"[" * 200 + b"]" * 200, "deeper than 128"),
        (b"[" * 200_000, "deeper than 128"),
        (b'"\\ud800"', "half a surrogate"),
    ]:
        write(tree, {"text.txt": content})
        assert why in _refused(tree, _set(("text.txt", [_operation("add", "", value=1)])), Cause.DOES_NOT_APPLY)


def test_a_directory_is_not_a_missing_file(tree: Path) -> None:
    (tree / "dir").mkdir()
    _refused(tree, _set(("dir", [_operation("add", "", value=1)])), Cause.DOES_NOT_APPLY)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "not JSON"),
        (b"[]", "must be an object"),
        (b"\xff", "not UTF-8"),
        (b"{}", "has no 'patches'"),
        (b'{"schema_version":"x07.arch.patchset@0.2.0","patches":[]}', "must be 'x07.arch.patchset@0.1.0'"),
        (b'{"schema_version":"x07.arch.patchset@0.1.0","patches":{}}', "must be an array"),
        (b'{"schema_version":"x07.arch.patchset@0.1.0","patches":[],"x":1}', "unknown key 'x'"),
        (b'{"schema_version":"x07.arch.patchset@0.1.0","patches":[],"patches":[]}', "there twice"),
        (_set(("", [])), "1 to 1024 characters"),
        (_set(("x" * 1025, [])), "1 to 1024 characters"),
        (_set(("a.json", [{"op": "add", "path": "/x"}])), "has no 'value'"),
        (_set(("a.json", [{"op": "add", "path": "/x", "value": 1, "from": "/y"}])), "unknown key 'from'"),
        (_set(("a.json", [{"op": "frobnicate", "path": "/x"}])), "op is one of"),
        (_set(("a.json", [{"op": ["add"], "path": "/x"}])), "op is one of"),
        (_set(("a.json", [{"op": "move", "path": "/x", "from": 1}])), "0 to 2048 characters"),
        (_set(("a.json", [{"op": "remove", "path": "/" * 2049}])), "0 to 2048 characters"),
        (b'{"schema_version":"x07.arch.patchset@0.1.0","patches":' + b"[" * 100_000, "deeper than 128"),
        (_set(("a.json", [_operation("add", "/" + "x/" * 126, value=[[[[]]]])])), "deeper than 128"),
    ],
)
def test_a_document_that_is_not_a_patch_set_is_malformed(tree: Path, data: bytes, why: str) -> None:
    write(tree, {"a.json": json.dumps(_nested(126))})
    assert why in _refused(tree, data, Cause.MALFORMED_SUBMISSION)


def _nested(depth: int) -> Any:
    document: Any = {}
    for _ in range(depth):
        document = {"x": document}
    return document


def test_a_malformed_patch_set_is_reported_with_its_place(tree: Path) -> None:
    bad = _set(("a.json", [_operation("add", "/x", value=1)]), ("a.json", [_operation("add", "/x", value=1), {}]))
    assert _refused(tree, bad, Cause.MALFORMED_SUBMISSION).startswith("/patches/1/patch/1: ")


@pytest.mark.parametrize("data", [b"", b" \n", _set()])
def test_a_patch_set_of_nothing_is_empty(tree: Path, data: bytes) -> None:
    _refused(tree, data, Cause.EMPTY)


@pytest.mark.parametrize(
    "path",
    ["../evil.json", "/etc/x.json", "a/../../x.json", ".git/config", "x/.GIT/y.json", "a\\b.json", "way/x.json",
     "link.json", "a\0b", "..", ".", "./", "git~1/x.json"],
)  # fmt: skip
def test_a_path_that_leaves_the_workspace_is_unsafe(tree: Path, path: str) -> None:
    write(tree.parent, {"outside/x.json": "{}"})
    write(tree, {"way": Path("../outside"), "link.json": Path("../outside/x.json")})
    _refused(tree, _set((path, [_operation("add", "", value=1)])), Cause.UNSAFE_SUBMISSION)


def test_a_name_longer_than_any_file_s_is_unsafe(tree: Path) -> None:
    _refused(tree, _set(("x" * 300 + ".json", [_operation("add", "", value=1)])), Cause.UNSAFE_SUBMISSION)


def test_copies_of_copies_end_before_they_fill_the_memory(tree: Path) -> None:
    double = [_operation("copy", f"/{step}", from_="") for step in range(100)]
    with pytest.raises(InvalidSubmission, match="copies and adds more") as caught:
        apply_patch_set(tree, _set(("a.json", double)), limit_bytes=100_000)
    assert caught.value.cause is Cause.TOO_LARGE
    deepen = [_operation("copy", "/deep/x", from_="/deep") for _ in range(3)]
    apply_patch_set(tree, _set(("a.json", deepen)))


def test_too_many_operations_are_too_large(tree: Path) -> None:
    many = [_operation("test", "/list/0", value=1)] * 10_001
    _refused(tree, _set(("a.json", many)), Cause.TOO_LARGE)
    with pytest.raises(InvalidSubmission) as caught:
        read_patch_set(_set(("a.json", [])), limit_bytes=10)
    assert caught.value.cause is Cause.TOO_LARGE


def test_a_programs_mode_survives(tree: Path) -> None:
    (tree / "a.json").chmod(0o750)
    apply_patch_set(tree, _set(("a.json", [_operation("add", "", value=1)])))
    assert (tree / "a.json").stat().st_mode & 0o777 == 0o750


def test_a_patch_set_is_identified_by_its_content() -> None:
    one = b'{"schema_version": "x07.arch.patchset@0.1.0",\n "patches": [{"patch": [], "path": "\\u00e9"}]}'
    other = '{"patches":[{"path":"é","patch":[]}],"schema_version":"x07.arch.patchset@0.1.0"}'.encode()
    assert patch_sha256(one, PatchKind.PATCH_SET) == patch_sha256(other, PatchKind.PATCH_SET)
    with pytest.raises(InvalidSubmission):
        patch_sha256(b"{", PatchKind.PATCH_SET)


@pytest.mark.parametrize(("data", "suite"), SUITES)
def test_the_oracles_of_a_real_suite_apply_and_have_their_published_digests(
    data: Callable[..., Path], suite: str, tmp_path: Path
) -> None:
    instances = data("x07", suite, "instances")
    report = json.loads(data("x07", f"report_{suite}_oracle.json").read_text())
    published = {result["instance_id"]: result["patch_sha256_hex"] for result in report["instances"]}
    assert len(published) == 2
    for name, digest in published.items():
        oracle = (instances / name / "oracle.patchset.json").read_bytes()
        assert patch_sha256(oracle, PatchKind.PATCH_SET) == digest
        (patch,) = read_patch_set(oracle)
        original = (instances / name / "repo" / patch.path).read_text()
        tree = write(tmp_path / name, {patch.path: original})
        assert apply_patch(tree, oracle, PatchKind.PATCH_SET).touched == (patch.path,)
        expected = jsonpatch.apply_patch(json.loads(original), json.loads(oracle)["patches"][0]["patch"])
        assert json.loads((tree / patch.path).read_text()) == expected


# Integers and short strings only: there the oracle's idea of equality is ours.
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(2, 4), st.sampled_from(["", "x"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "", "/", "~", "0", "-"]), inner, max_size=3),
    ),
    max_leaves=8,
)
POINTERS = st.lists(st.sampled_from(["a", "b", "", "~1", "~0", "0", "1", "2", "-", "01", "+1"]), max_size=3).map(
    lambda tokens: "".join(f"/{token}" for token in tokens)
)
OPERATIONS = st.one_of(
    st.builds(
        lambda op, path, value: _operation(op, path, value=value),
        st.sampled_from(["add", "replace", "test"]),
        POINTERS,
        VALUES,
    ),
    st.builds(lambda path: _operation("remove", path), POINTERS.filter(bool)),
    st.builds(
        lambda op, path, source: _operation(op, path, from_=source),
        st.sampled_from(["move", "copy"]),
        POINTERS,
        POINTERS.filter(bool),
    ),
)


@given(document=VALUES, operations=st.lists(OPERATIONS, min_size=1, max_size=4))
@example(document={"a": [2, 3]}, operations=[_operation("move", "/a/0", from_="/a/1")])
@example(document={"a": {"b": 2}}, operations=[_operation("move", "/a/b", from_="/a/b")])
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_operations_do_what_the_reference_implementation_does(document: Any, operations: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        tree = write(Path(directory), {"a.json": json.dumps(document)})
        try:
            expected = jsonpatch.apply_patch(copy.deepcopy(document), operations)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
            with pytest.raises(InvalidSubmission):
                apply_patch_set(tree, _set(("a.json", operations)))
        else:
            apply_patch_set(tree, _set(("a.json", operations)))
            assert json.loads((tree / "a.json").read_text()) == expected


ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), POINTERS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["op", "path", "value", "from", "patch", "patches", "note", "x"]), inner, max_size=4
        ),
    ),
    max_leaves=10,
)
HOSTILE_PATHS = st.sampled_from(
    ["a.json", "../x", "way/x.json", ".git/x", "text.txt", "new/b.json", "dir", "a.json/b", "/x"]
)
HOSTILE = st.one_of(
    ANY_JSON,
    st.builds(
        lambda targets: {"schema_version": "x07.arch.patchset@0.1.0", "patches": targets},
        st.lists(
            st.fixed_dictionaries(
                {"path": HOSTILE_PATHS, "patch": st.lists(st.one_of(OPERATIONS, ANY_JSON), max_size=4)}
            ),
            max_size=3,
        ),
    ),
).map(lambda document: json.dumps(document).encode())


@given(data=st.one_of(HOSTILE, st.binary(max_size=100)))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_patch_set_writes_outside_or_raises_anything_else(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        around = write(Path(directory), {"outside/x.json": "{}", "x": "precious\n"})
        tree = write(
            around / "tree", {"a.json": '{"a": [2]}', "text.txt": "x", "dir/c": "1", "way": Path("../outside")}
        )
        inside, outside = contents(tree), snapshot(around / "outside")
        try:
            applied = apply_patch_set(tree, data)
        except InvalidSubmission:
            assert contents(tree) == inside
        else:
            assert set(applied.touched) <= {"a.json", "text.txt", "new/b.json"}
        assert snapshot(around / "outside") == outside
        assert {place.name for place in around.iterdir()} == {"outside", "x", "tree"}
