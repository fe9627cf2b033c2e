import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.errors import UsageError
from proctor.core.predictions import read_predictions
from proctor.core.submission import PatchKind


def write(folder: Path, *lines: Any) -> Path:
    file = folder / "predictions.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return file


def line(**changes: Any) -> dict[str, Any]:
    document = {"instance_id": "one", "patch_kind": "unified-diff", "patch_inline": "--- a\n", **changes}
    return {key: value for key, value in document.items() if value is not None}


def test_a_diff_is_read_inline_or_from_a_file_beside_the_predictions(tmp_path: Path) -> None:
    (tmp_path / "p.diff").write_bytes(b"--- \xff\n")
    by_path = line(instance_id="two", patch_inline=None, patch_path="p.diff")
    predictions = read_predictions(write(tmp_path, line(), "", by_path))
    assert predictions["one"].content == b"--- a\n"
    assert predictions["two"].content == b"--- \xff\n"


def test_a_line_may_state_our_version_or_one_that_the_caller_knows(tmp_path: Path) -> None:
    lines = [line(schema_version="proctor.prediction@1"), line(instance_id="two", schema_version="theirs@1")]
    assert len(read_predictions(write(tmp_path, *lines), schemas=["theirs@1"])) == 2
    with pytest.raises(UsageError, match="1 bad line"):
        read_predictions(write(tmp_path, *lines))


def test_a_script_is_read_as_it_is(tmp_path: Path) -> None:
    prediction = read_predictions(write(tmp_path, line(patch_kind="shell_script", patch_inline="echo hello\n")))["one"]
    assert (prediction.patch_kind, prediction.content) == (PatchKind.SHELL_SCRIPT, b"echo hello\n")


def test_a_patch_set_keeps_its_numbers_as_they_were_written(tmp_path: Path) -> None:
    text = '{"instance_id": "one", "patch_kind": "x07_arch_patchset_json", "patch_inline": {"v": [1.0, 1e400, 1]}}'
    prediction = read_predictions(write(tmp_path, text))["one"]
    assert prediction.patch_kind is PatchKind.PATCH_SET
    assert prediction.content == b'{"v": [1.0, 1e400, 1]}'


@pytest.mark.parametrize(
    ("changes", "model"),
    [
        ({}, None),
        ({"model": "m"}, "m"),
        ({"model": "m", "model_name_or_path": "n", "note": "dropped"}, "n"),
        ({"model": "m1", "meta": {"k": 1}}, 'm1 meta={"k":1}'),
        ({"note": "by hand"}, "by hand"),
        ({"note": "by hand", "meta": [1]}, "by hand meta=[1]"),
        ({"meta": 0}, "meta=0"),
    ],
)
def test_the_model_is_shown_with_note_and_meta(tmp_path: Path, changes: dict[str, Any], model: str | None) -> None:
    assert read_predictions(write(tmp_path, line(**changes)))["one"].model == model


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "a prediction is a JSON object"),
        ('{"instance_id": NaN}', "not JSON: NaN"),
        (line(surprise=1), "there is no key 'surprise'"),
        (line(patch_pth="p"), "there is no key 'patch_pth'; did you mean 'patch_path'?"),
        (line(schema_version="x07.bench.prediction@9"), "schema_version "),
        (line(instance_id=" "), "instance_id is missing or empty"),
        (line(instance_id=7), "instance_id is missing or empty"),
        (line(patch_kind="ed-script"), "patch_kind "),
        (line(patch_kind=None), "patch_kind "),
        (line(patch_kind="state", patch_inline='{"rewards": {"reward": 1}}'), "patch_kind "),
        (line(patch_kind="artifacts", patch_inline="forged"), "patch_kind "),
        (line(patch_kind="shell-script", patch_inline={}), "a "),
        (line(patch_path="p"), "give exactly one of patch_path and patch_inline"),
        (line(patch_inline=None), "give exactly one of patch_path and patch_inline"),
        (line(patch_inline={}), "a "),
        (line(patch_kind="x07-arch-patchset-json"), "a patch set is given as an object"),
        (line(patch_inline=None, patch_path="/etc/passwd"), "patch_path "),
        (line(patch_inline=None, patch_path="../p.diff"), "patch_path "),
        (line(patch_inline=None, patch_path="a\\b"), "patch_path "),
        (line(patch_inline=None, patch_path="nope.diff"), "cannot read patch_path nope.diff: "),
        (line(patch_inline=None, patch_path="out/secret"), "patch_path "),
    ],
)
def test_a_bad_line_is_named_by_number_and_reason_and_nothing_else_counts(
    tmp_path: Path, bad: Any, reason: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "out").symlink_to(outside)
    file = write(folder, line(instance_id="good"), bad)
    with pytest.raises(UsageError) as caught:
        read_predictions(file)
    assert caught.value.details[0].startswith(f"{file}:2: {reason}")


def test_every_bad_line_is_listed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="3 bad lines") as caught:
        read_predictions(write(tmp_path, "{", line(), line(), "[]"))
    assert ["JSON" in detail for detail in caught.value.details] == [True, False, True]
    assert "has a prediction already" in caught.value.details[1]


def test_a_file_that_is_not_there_or_not_text_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read predictions"):
        read_predictions(tmp_path / "nope.jsonl")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_predictions(binary)


@given(st.lists(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("latin-1")), max_size=4))
def test_no_text_makes_the_reader_raise_anything_but_its_own_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "predictions.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    with contextlib.suppress(UsageError):
        read_predictions(file)
