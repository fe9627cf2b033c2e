import itertools
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plain_environment import PlainEnvironment
from proctor.gateway import Redactor
from proctor.runner.redacted_environment import _MAX_BUFFERED, RedactedEnvironment, RedactingWriter, redact_submission

SECRET = "dummy-secret-0123456789"


@given(
    pieces=st.lists(
        st.sampled_from([SECRET, SECRET[:10], "x", "\n", " ", "Bearer abcdefghijklmnop", "é"]), max_size=30
    ),
    cuts=st.lists(st.integers(0, 400), max_size=20),
)
def test_the_output_is_the_same_however_the_input_is_split(pieces: list[str], cuts: list[int]) -> None:
    data = "".join(pieces).encode()
    redactor, out = Redactor([SECRET]), bytearray()
    cleaner = RedactingWriter(redactor, out.extend)
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        cleaner.write(data[start:end])
    cleaner.flush()
    assert SECRET.encode() not in out
    whole = b"".join(redactor.redact_bytes(line) for line in data.splitlines(keepends=True))
    assert bytes(out).replace(b"[redacted]", b"") == whole.replace(b"[redacted]", b"")


def test_a_line_without_end_is_passed_on_and_a_secret_in_it_is_not() -> None:
    out = bytearray()
    cleaner = RedactingWriter(Redactor([SECRET]), out.extend)
    filler = b"x" * 100_000
    for _ in range(12):
        cleaner.write(filler)
    assert len(out) > _MAX_BUFFERED // 2, "what has no end would be held for ever"
    cleaner.write(SECRET.encode()[:12])
    cleaner.write(SECRET.encode()[12:] + filler * 12)
    cleaner.flush()
    assert SECRET.encode() not in out
    assert out.count(b"[redacted]") == 1
    assert len(out) == 24 * len(filler) + len("[redacted]")


async def test_commands_in_a_redacted_environment_are_heard_without_secrets_and_otherwise_unchanged(
    tmp_path: Path,
) -> None:
    plain: Any = PlainEnvironment(tmp_path)
    environment = RedactedEnvironment(plain, Redactor([SECRET]))
    heard: dict[str, bytes] = {"out": b"", "err": b""}
    done = await environment.exec(
        ["sh", "-c", f"cat; printf {SECRET}; printf 'a {SECRET} b\\n' >&2; exit 3"],
        stdin=b"in\n",
        on_stdout=lambda data: heard.update(out=heard["out"] + data),
        on_stderr=lambda data: heard.update(err=heard["err"] + data),
    )
    assert done.exit_code == 3
    assert heard == {"out": b"in\n[redacted]", "err": b"a [redacted] b\n"}
    assert environment.workdir == str(tmp_path / "workspace")
    await environment.put(b"content", f"{tmp_path}/file")
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_submission_is_evidence_and_loses_our_own_secrets_only() -> None:
    foreign = b"+TOKEN = 'sk-ant-api03-somebody-elses-test-data'\n"
    assert redact_submission(foreign, (SECRET,), "submission.diff") == (foreign, ())
    clean, findings = redact_submission(foreign + SECRET.encode(), (SECRET[:8], SECRET), "submission.diff")
    assert clean == foreign + b"[redacted]"
    assert [(finding.code, finding.path) for finding in findings] == [("secret_in_submission", "submission.diff")]
