import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.verdict import TestStatus
from proctor.grading import InconclusiveKind, InconclusiveRun, TestResults
from proctor.grading.reporter_records import parse_records, parse_worker_records

KEY = b"k" * 32


def signed(*lines: str, key: bytes = KEY) -> bytes:
    """Records as the supervisor writes them: words, with the fields in hexadecimal."""
    last = b""
    result = b""
    for line in lines:
        head, *fields = line.split(" ")
        words = [head]
        if head == "worker":
            words.append(fields.pop(0))
        payload = " ".join([*words, *(field.encode().hex() or "-" for field in fields)]).encode()
        last = hashlib.blake2b(last + payload, key=key, digest_size=16).hexdigest().encode()
        result += last + b" " + payload + b"\n"
    return result


GOOD = (
    "hello 3.11.7",
    "worker ready",
    "worker collect a",
    "worker collect b",
    "worker collected 2",
    "worker start a",
    "worker finish a passed",
    "worker start b",
    "worker finish b failed",
    "worker final 1",
    "end 0 9 0",
)


def test_a_run_that_adds_up_is_believed() -> None:
    expected = TestResults(tests={"a": TestStatus.PASSED, "b": TestStatus.FAILED})
    assert parse_records(signed(*GOOD), KEY) == expected


def kind_of(data: bytes, key: bytes = KEY) -> InconclusiveKind:
    outcome = parse_records(data, key)
    assert isinstance(outcome, InconclusiveRun)
    return outcome.kind


def test_another_key_is_not_believed() -> None:
    assert kind_of(signed(*GOOD, key=b"x" * 32)) is InconclusiveKind.FORGED


@pytest.mark.parametrize("end", range(len(GOOD)))
def test_a_run_that_stops_anywhere_before_its_end_is_not_believed(end: int) -> None:
    expected = InconclusiveKind.NOT_STARTED if end < 2 else InconclusiveKind.CUT_SHORT
    assert kind_of(signed(*GOOD[:end])) is expected


@pytest.mark.parametrize("dropped", range(len(GOOD) - 1))
def test_a_run_with_a_record_taken_out_and_signed_anew_does_not_add_up(dropped: int) -> None:
    outcome = parse_records(signed(*GOOD[:dropped], *GOOD[dropped + 1 :]), KEY)
    assert isinstance(outcome, InconclusiveRun)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, len(GOOD) - 1))
def test_records_that_change_places_are_not_believed(one: int, other: int) -> None:
    lines = signed(*GOOD).split(b"\n")
    lines[one], lines[other] = lines[other], lines[one]
    outcome = parse_records(b"\n".join(lines), KEY)
    assert isinstance(outcome, TestResults) == (one == other)


@pytest.mark.parametrize(
    "extra",
    [
        "worker finish b passed",
        "worker start a",
        "worker start c",
        "worker collect c",
        "worker finish b great",
        "worker finish b missing",
        "worker end 0 9 0",
        "worker hello 3",
        "forged",
        "nonsense",
    ],
)
def test_a_record_that_does_not_belong_spoils_the_run(extra: str) -> None:
    assert kind_of(signed(*GOOD[:9], extra, *GOOD[9:])) is InconclusiveKind.FORGED


def test_nothing_comes_after_the_end() -> None:
    assert kind_of(signed(*GOOD, "worker tampered x")) is InconclusiveKind.FORGED


@pytest.mark.parametrize(
    ("status", "words"), [("9", "killed by SIGKILL"), ("256", "exited with code 1"), ("64", "killed by SIGRTMAX")]
)
def test_a_worker_that_did_not_end_well_is_not_believed_even_after_its_last_record(status: str, words: str) -> None:
    outcome = parse_records(signed(*GOOD[:-1], f"end {status} 9 0"), KEY)
    assert isinstance(outcome, InconclusiveRun)
    assert words in outcome.reason


def test_the_test_that_was_running_when_the_worker_died_counts_as_an_error_among_what_is_known() -> None:
    outcome = parse_records(signed(*GOOD[:8], "end 9 7 0"), KEY)
    assert isinstance(outcome, InconclusiveRun)
    assert outcome.partial == {"a": TestStatus.PASSED, "b": TestStatus.ERROR}


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    assert isinstance(parse_records(data, KEY), InconclusiveRun)


words = st.sampled_from(
    [
        "hello",
        "worker",
        "ready",
        "collect",
        "collected",
        "start",
        "finish",
        "final",
        "end",
        "forged",
        "zz",
        "0",
        "é",
        "",
    ]
)


@given(st.lists(st.lists(words, min_size=1, max_size=4), max_size=8))
def test_signed_nonsense_is_read_without_an_exception(lines: list[list[str]]) -> None:
    last = data = b""
    for line in lines:
        payload = " ".join(line).encode()
        last = hashlib.blake2b(last + payload, key=KEY, digest_size=16).hexdigest().encode()
        data += last + b" " + payload + b"\n"
    assert isinstance(parse_records(data, KEY), InconclusiveRun)


WORKER = tuple(line.removeprefix("worker ") for line in GOOD if line.startswith("worker "))


def test_a_worker_that_speaks_to_us_directly_is_believed() -> None:
    expected = TestResults(tests={"a": TestStatus.PASSED, "b": TestStatus.FAILED})
    assert parse_worker_records(signed(*WORKER), KEY, 0) == expected


@pytest.mark.parametrize("end", range(len(WORKER)))
@pytest.mark.parametrize("code", [0, 1, 137])
def test_a_worker_that_stops_anywhere_before_its_end_is_not_believed(end: int, code: int) -> None:
    outcome = parse_worker_records(signed(*WORKER[:end]), KEY, code)
    assert isinstance(outcome, InconclusiveRun)
    assert outcome.kind in {InconclusiveKind.NOT_STARTED, InconclusiveKind.CUT_SHORT}


@pytest.mark.parametrize(
    ("records", "key", "code", "kind"),
    [
        (WORKER, b"x" * 32, 0, InconclusiveKind.FORGED),
        ((*WORKER, "tampered unittest"), KEY, 0, InconclusiveKind.FORGED),
        ((*WORKER, "final 0"), KEY, 0, InconclusiveKind.FORGED),
        ((WORKER[0], *WORKER), KEY, 0, InconclusiveKind.FORGED),
        (("end 0 0 0",), KEY, 0, InconclusiveKind.FORGED),
        (("hello 3.11.7", *WORKER), KEY, 0, InconclusiveKind.FORGED),
        (WORKER, KEY, 3, InconclusiveKind.CUT_SHORT),
        (WORKER, KEY, 139, InconclusiveKind.CUT_SHORT),
    ],
)
def test_a_worker_whose_records_do_not_add_up_is_not_believed(
    records: tuple[str, ...], key: bytes, code: int, kind: InconclusiveKind
) -> None:
    outcome = parse_worker_records(signed(*records, key=key), KEY, code)
    assert isinstance(outcome, InconclusiveRun)
    assert outcome.kind is kind


def test_how_a_worker_was_killed_is_reported() -> None:
    outcome = parse_worker_records(signed(*WORKER[:5]), KEY, 139)
    assert isinstance(outcome, InconclusiveRun)
    assert "SIGSEGV" in outcome.reason
    assert outcome.partial == {"a": TestStatus.ERROR}


@given(st.binary(), st.integers(0, 255))
def test_no_bytes_of_others_are_believed(data: bytes, code: int) -> None:
    assert isinstance(parse_worker_records(data, KEY, code), InconclusiveRun)
