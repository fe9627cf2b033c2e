"""Fetched data sets: whole or not at all, and the same files have the same digest."""

from pathlib import Path

import pytest

from proctor.benchmarks.data import store_dataset, stored_dataset
from proctor.core.benchmark import DatasetInfo
from proctor.core.errors import UsageError


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path / "cache"))


def _keep(text: str, *, origin: str = "here") -> DatasetInfo:
    def fill(folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "rows.jsonl").write_text(text)

    return store_dataset("bench", "lite", fill, origin=origin, revision="r1", tasks=3)


def test_a_stored_dataset_is_found_with_its_origin() -> None:
    kept = _keep("rows")
    record, files = stored_dataset("bench", "lite")
    assert record == kept
    assert (record.origin, record.revision, record.tasks) == ("here", "r1", 3)
    assert (files / "sub" / "rows.jsonl").read_text() == "rows"


def test_the_digest_is_of_the_files_alone() -> None:
    first = _keep("rows")
    assert _keep("rows", origin="elsewhere").digest == first.digest
    assert _keep("other rows").digest != first.digest


def test_a_fetch_that_fails_leaves_the_old_data_and_nothing_else(tmp_path: Path) -> None:
    _keep("good")

    def fill(folder: Path) -> None:
        (folder / "half").write_text("…")
        raise UsageError("the network went away")

    with pytest.raises(UsageError, match="went away"):
        store_dataset("bench", "lite", fill, origin="here", revision="r2", tasks=1)
    record, files = stored_dataset("bench", "lite")
    assert record.revision == "r1"
    assert (files / "sub" / "rows.jsonl").read_text() == "good"
    assert {path.name for path in (tmp_path / "cache/data/bench").iterdir()} == {"lite", ".lite.lock"}


def test_data_that_is_not_there_is_refused_with_the_command_that_brings_it() -> None:
    with pytest.raises(UsageError, match=r"proctor bench fetch bench --split lite"):
        stored_dataset("bench", "lite")
