import json
from pathlib import Path

import pytest

from proctor.core.causes import Status
from proctor.core.errors import UsageError
from proctor.report.formats.atif import AtifFormat
from proctor.report.formats.harbor import HarborFormat
from proctor.report.trajectories import readable_trajectory
from proctor.results.formats import ExportOptions, ImportOptions, export_run, import_run
from recorded import record_pod
from stored_runs import small_run


async def test_exported_trajectories_can_be_imported(tmp_path: Path) -> None:
    store = small_run(tmp_path / "results")
    await record_pod(store.logs("org/one", 1, 1) / "cassette.jsonl", "org/one")
    await record_pod(store.logs("org/one", 2, 1) / "cassette.jsonl", "org/one")
    exported = export_run(store, AtifFormat(), tmp_path / "out", ExportOptions())
    assert exported.files == 2
    assert exported.left_out[0] == "2 trials that the run has not recorded"
    assert sorted(sentence.split(":")[0] for sentence in exported.left_out[1:]) == ["three", "two"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["org%2fone.json", "org%2fone~2.json"]
    with pytest.raises(UsageError, match="--benchmark"):
        AtifFormat().read(tmp_path / "out", ImportOptions())
    again = import_run(AtifFormat().read(tmp_path / "out", ImportOptions(benchmark="toy")), root=tmp_path / "again")
    assert (again.config().agent, again.config().trials) == ("claude_code", 2)
    result = again.result("org/one")
    # A trajectory has no verdict.
    assert (result.status, result.verdict) == (Status.SKIPPED, None)
    theirs = readable_trajectory(again, again.config(), result, [])
    assert theirs is not None
    assert theirs == readable_trajectory(store, store.config(), store.result("org/one"), [])
    assert result.metrics.agents == 2
    assert sum(usage.tokens.input for usage in result.usage) == theirs.totals.tokens.input


@pytest.mark.parametrize("form", [AtifFormat(), HarborFormat()])
async def test_a_broken_recording_is_left_out_of_the_export(form: AtifFormat | HarborFormat, tmp_path: Path) -> None:
    store = small_run(tmp_path / "results")
    await record_pod(store.logs("org/one", 1, 1) / "cassette.jsonl", "org/one")
    (store.logs("two", 1, 1) / "cassette.jsonl").write_text("torn")
    exported = export_run(store, form, tmp_path / "out", ExportOptions())
    (broken,) = (sentence for sentence in exported.left_out if "cannot be read" in sentence)
    assert broken.startswith("two: its trajectory cannot be read: ")
    assert "cassette.jsonl" in broken
    written = [file for file in (tmp_path / "out").rglob("*.json") if b'"ATIF-v1.7"' in file.read_bytes()]
    assert len(written) == 1


def test_trajectories_of_other_tools_are_named_after_their_folders(tmp_path: Path) -> None:
    step = {"step_id": 1, "source": "agent", "message": "Done."}
    theirs = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "a", "version": "1"}, "steps": [step]}
    for path in ("fix-git/agent/trajectory.json", "hello/trajectory.json", "third.json"):
        file = tmp_path / "theirs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(theirs))
    run = import_run(AtifFormat().read(tmp_path / "theirs", ImportOptions(benchmark="b")), root=tmp_path / "results")
    assert run.config().tasks == ("fix-git", "hello", "third")
