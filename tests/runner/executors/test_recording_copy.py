"""The driver's copy of a recording."""

from pathlib import Path

import pytest

from proctor.runner.executors.recording_copy import RecordingCopy


def test_parts_are_appended_once_whatever_is_sent_again(tmp_path: Path) -> None:
    copy = RecordingCopy(tmp_path / "recording")
    copy.append(0, b"one\ntwo\n")
    copy.append(4, b"two\nthree\n")
    copy.append(0, b"one\n")
    copy.sync()
    assert (tmp_path / "recording").read_bytes() == b"one\ntwo\nthree\n"
    assert copy.size == 14
    copy.close()


def test_a_part_whose_beginning_is_missing_is_refused_and_an_unfinished_line_goes(tmp_path: Path) -> None:
    copy = RecordingCopy(tmp_path / "recording")
    with pytest.raises(ValueError, match="were not sent"):
        copy.append(3, b"late\n")
    copy.append(0, b"one\nunfin")
    copy.end_line()
    assert (tmp_path / "recording").read_bytes() == b"one\n"
    copy.close()
