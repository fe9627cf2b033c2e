import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.run import JournalEntry
from proctor.results import Journal, read_journal


def entry(number: int) -> JournalEntry:
    return JournalEntry(at="now", task_id=f"t{number}", trial=1, attempt=1, stage="answered")


async def test_entries_come_back_in_order_across_writers(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    for start in (0, 2):
        async with Journal(file) as journal:
            await journal.commit(entry(start))
            await journal.commit(entry(start + 1))
    assert [found.task_id for found in read_journal(file)] == ["t0", "t1", "t2", "t3"]


async def test_entries_that_wait_together_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    monkeypatch.setattr("proctor.results.journal.sync_data", syncs.append)
    async with Journal(tmp_path / "journal.jsonl") as journal:
        await asyncio.gather(*(journal.commit(entry(number)) for number in range(500)))
    assert len(list(read_journal(tmp_path / "journal.jsonl"))) == 500
    assert len(syncs) < 20


async def test_a_line_cut_off_by_a_kill_is_ignored_and_not_joined_to_the_next(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    async with Journal(file) as journal:
        await journal.commit(entry(1))
    with file.open("ab") as end:
        end.write(b'{"at": "no')
    assert [found.task_id for found in read_journal(file)] == ["t1"]
    async with Journal(file) as journal:
        await journal.commit(entry(2))
    assert [found.task_id for found in read_journal(file)] == ["t1", "t2"]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_text('{"at": 1}\n')
    with pytest.raises(InvalidData, match=r"journal\.jsonl:1: not a valid journal entry"):
        list(read_journal(file))


async def test_what_is_no_file_in_its_place_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot write the journal: Is a directory"):
        async with Journal(tmp_path):
            pass


def test_a_run_without_a_journal_has_no_entries(tmp_path: Path) -> None:
    assert list(read_journal(tmp_path / "none.jsonl")) == []


WRITER = """
import asyncio, sys
from pathlib import Path
from proctor.core.run import JournalEntry
from proctor.results import Journal

async def main():
    async with Journal(Path(sys.argv[1])) as journal:
        for number in range(10**6):
            await journal.commit(JournalEntry(at="now", task_id=str(number), trial=1, attempt=1, stage="graded"))
            print(number, flush=True)

asyncio.run(main())
"""


def test_committed_entries_survive_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    time.sleep(0.3)
    writer.send_signal(signal.SIGKILL)
    promised = len(writer.communicate()[0].splitlines()) + 1
    assert len(list(read_journal(file))) >= promised


async def test_files_are_there_before_the_lines_that_refer_to_them(tmp_path: Path) -> None:
    file, record = tmp_path / "journal.jsonl", tmp_path / "logs" / "t1" / "attempt-1" / "attempt.json"
    async with Journal(file) as journal:
        await journal.commit(entry(1), entry(2), files={record: b"{}"})
    assert record.read_bytes() == b"{}"
    assert [found.task_id for found in read_journal(file)] == ["t1", "t2"]


async def test_a_file_that_cannot_be_written_keeps_its_line_out_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    (tmp_path / "taken").write_text("a file where a folder should be")
    async with Journal(file) as journal:
        bad, good = await asyncio.gather(
            journal.commit(entry(1), files={tmp_path / "taken" / "attempt.json": b"{}"}),
            journal.commit(entry(2), files={tmp_path / "attempt.json": b"{}"}),
            return_exceptions=True,
        )
        await journal.commit(entry(3))
    assert isinstance(bad, OSError)
    assert good is None
    assert [found.task_id for found in read_journal(file)] == ["t2", "t3"]


async def test_a_line_that_fits_only_in_part_is_taken_back(tmp_path: Path) -> None:
    """A full disk takes some of a line; the next line that fits must not be joined to that part."""
    script = FULL_DISK.format(file=str(tmp_path / "journal.jsonl"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["refused", "written"], done.stderr
    assert [found.task_id for found in read_journal(tmp_path / "journal.jsonl")] == ["first", "last"]


FULL_DISK = """
import asyncio, resource, signal
from pathlib import Path
from proctor.core.run import JournalEntry
from proctor.results import Journal

def entry(name):
    return JournalEntry(at="now", task_id=name, trial=1, attempt=1, stage="graded")

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    async with Journal(Path("{file}")) as journal:
        await journal.commit(entry("first"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (250, resource.RLIM_INFINITY))
        try:
            await journal.commit(entry("x" * 200))
        except OSError:
            print("refused")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await journal.commit(entry("last"))
        print("written")

asyncio.run(main())
"""


async def test_a_cancelled_commit_is_written_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    async with Journal(file) as journal:
        writing = asyncio.create_task(journal.commit(entry(1)))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    assert [found.task_id for found in read_journal(file)] == ["t1"]
