"""Every kind of file that users bring, with everything in it that makes a parser hang, crash or fill memory.

Each ends in one sentence and a documented exit code, at once. A kind that is read by a command goes through the command
line; the others, which need a model, an engine or a data set of their own, through the function that reads them.
"""

import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import suite_world
from paths import REPOSITORY
from processor_time import is_within
from proctor.agents.h2.template import load_template
from proctor.benchmarks.data import read_rows
from proctor.benchmarks.harbor.task_format import read_task
from proctor.benchmarks.re_bench.task_standard import read_manifest
from proctor.benchmarks.swe.harness_reports import read_outcomes
from proctor.benchmarks.swe.local.pins import read_pins
from proctor.benchmarks.swe.predictions import read_swe_predictions
from proctor.benchmarks.swe.row_loading import rows_from_copy
from proctor.benchmarks.terminal_bench.convert import convert
from proctor.cli.dispatch import dispatch
from proctor.core.errors import InvalidData, ProctorError, UsageError
from proctor.gateway.prices import Prices
from proctor.gateway.recording import load_recording
from proctor.gateway.script import read_script
from proctor.results import RunStore

SAMPLES = REPOSITORY / "tests/samples"
SECONDS = 5.0  # of processor time: what these files did before takes minutes, or never ends
MEGABYTES = 1024
MAX_OUTPUT = 20_000
DEEP = 100_000
DIGITS = 100_000


def expanding(levels: int = 12) -> str:
    """A billion laughs: each line stands for nine of the line before."""
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def merging(levels: int = 30) -> str:
    """The same through merged keys."""
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}]}}" for n in range(1, levels)]
    return "\n".join(lines)


JSON_BOMBS: dict[str, str] = {
    "deep lists": "[" * DEEP + "]" * DEEP,
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "unclosed": "[" * DEEP,
    "deep below a key": '{"schema_version": ' + "[" * DEEP + "]" * DEEP + "}",
    "nearly as deep as Python goes": '{"meta": ' + "[" * 900 + "]" * 900 + "}",
    "long number": '{"instance_id": 1' + "0" * DIGITS + "}",
    "number too large for a float": '{"timeout": 1' + "0" * 400 + "}",
    "many keys twice": "{" + ", ".join(f'"k{number % 50_000}": 1' for number in range(100_000)) + "}",
    "no text": "\udc80\udcff",
    "nothing": "",
}
YAML_BOMBS: dict[str, str] = {
    **JSON_BOMBS,
    "expanding aliases": expanding(),
    "expanding keys": merging(),
    "alias of itself": "a: &a [*a]",
    "anchor twice": "a: &a 1\nb: &a 2\nc: *a",
    "unknown alias": "a: *nowhere",
    "deep blocks": "\n".join(" " * depth + "a:" for depth in range(1000)),
    "deep sequences": "- " * DEEP,
    "deep keys": "? " * DEEP,
    "base 60": "a: 1" + ":10" * 300_000,
    "tagged number": "a: !!int '0x" + "f" * 1_000_000 + "'",
    "no such day": "a: 2001-99-99",
    "object of a program": "a: !!python/object/apply:os.system [id]",
    "many values": "- a\n" * 300_000,
}
TOML_BOMBS: dict[str, str] = {
    "deep lists": "a = " + "[" * DEEP + "]" * DEEP,
    "deep tables": "a = " + "{a=" * DEEP + "1" + "}" * DEEP,
    "dotted key": ".".join(["a"] * 50_000) + " = 1",
    "quoted dotted key": "x = {" + ".".join(["'a'"] * 50_000) + " = 1}",
    "dotted table": "[" + ".".join(["a"] * 50_000) + "]",
    "long number": "a = " + "9" * DIGITS,
    "long hexadecimal number": "a = 0x" + "f" * DIGITS,
    "no such day": "a = 2001-99-99",
    "no text": "a = '\udc80'",
    "many lines": "\n".join(f"a{number} = 1" for number in range(200_000)),
}
# What some kinds of files may well hold: an empty file, keys that nobody reads, a number that is a text there.
HARMLESS = {"nothing", "many keys twice", "no such day", "number too large for a float", "no text"}
BOMBS = {".json": JSON_BOMBS, ".jsonl": JSON_BOMBS, ".yaml": YAML_BOMBS, ".toml": TOML_BOMBS}


def write_in(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


def make_suite(folder: Path) -> None:
    suite_world.make_instance(folder)
    suite_world.make_suite(folder)


def make_job(folder: Path) -> None:
    shutil.copytree(SAMPLES / "harbor_job", folder / "job")


def nothing(folder: Path) -> None:
    """The file is all that there is."""


# By the command line: the file, what lies around it, and the command that reads it, in which @ is the file's folder.
RUN = ["bench", "run", "core", "--limit", "1"]
COMMANDS: dict[str, tuple[str, Callable[[Path], None], list[str]]] = {
    "suite": ("suite.json", make_suite, ["bench", "list", "--suite", "@"]),
    "instance": ("instances/one/instance.json", make_suite, ["bench", "validate", "--suite", "@/../.."]),
    "predictions": ("p.jsonl", make_suite, ["bench", "eval", "--suite", "@", "--predictions", "@/p.jsonl"]),
    "sweep": ("sweep.toml", nothing, ["bench", "sweep", "@/sweep.toml"]),
    "script": (
        "script.yaml",
        nothing,
        [*RUN, "--agent", "command", "--agent-command", "true", "--model", "script:@/script.yaml"],
    ),
    "prices": (
        "prices.yaml",
        nothing,
        [*RUN, "--agent", "command", "--agent-command", "true", "--model", "haiku", "--prices", "@/prices.yaml"],
    ),
    "image map": (
        "images.yaml",
        nothing,
        [*RUN, "--agent", "nop", "--runner", "docker", "--image-map", "@/images.yaml"],
    ),
    "preset": ("preset.toml", nothing, ["sandbox", "create", "box", "--preset", "@"]),
    "report": ("report.json", nothing, ["bench", "score", "@/report.json"]),
    "report of x07": ("x07.json", nothing, ["bench", "import", "--format", "x07", "@/x07.json"]),
    "report of a harness": (
        "swe.json",
        nothing,
        ["bench", "import", "--format", "swebench", "--benchmark", "swe_bench_verified", "@/swe.json"],
    ),
    "trajectory": ("t.json", nothing, ["bench", "import", "--format", "atif", "--benchmark", "any", "@/t.json"]),
    "trial of Harbor": (
        "job/sort-coins__Zy8xW6v/result.json",
        make_job,
        ["bench", "import", "--format", "harbor", "@/.."],
    ),
    "run": ("any/run-001/config.json", nothing, ["bench", "report", "@"]),
}

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "predictions of SWE-bench": ("preds.json", read_swe_predictions),
    "predictions of SWE-bench, by line": ("preds.jsonl", read_swe_predictions),
    "report of a harness": ("report.json", read_outcomes),
    "rows": ("rows.json", read_rows),
    "rows by line": ("rows.jsonl", read_rows),
    "task of SWE-bench": ("task/task.yaml", lambda file: rows_from_copy(file.parent.parent)),
    "environment of SWE-bench": (
        "environment.yaml",
        lambda file: read_pins(file.read_text(encoding="utf-8", errors="surrogateescape"), where=file),
    ),
    "task of Harbor": ("task/task.toml", lambda file: read_task(file.parent)),
    "old task of Terminal-Bench": ("old/task.yaml", lambda file: convert(file.parent, file.parent.parent / "new")),
    "family of RE-Bench": ("family/manifest.yaml", lambda file: read_manifest(file.parent)),
    "pod template": (
        "pod.yaml",
        lambda file: load_template(str(write_in(file.parent, "t.yaml", b"variables:\n  x: " + file.read_bytes())), {}),
    ),
    "script": ("script.yaml", read_script),
    "prices": ("prices.yaml", Prices.load),
    "recording": (
        "recording.jsonl",
        lambda file: load_recording(write_in(file.parent, "r", file.read_bytes() + b"\n")),
    ),
    "configuration of a run": ("any/run-001/config.json", lambda file: RunStore(file.parent).config()),
    "result of a trial": ("any/run-001/trials/a.json", lambda file: RunStore(file.parent.parent).result("a")),
}
# Those of which a text is read, wherever it comes from.
TEXTS = {"environment of SWE-bench", "pod template", "recording"}


@pytest.fixture(autouse=True)
def _bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a world of its own, and with an end to the memory that it may take."""
    for name in ("HOME", "PROCTOR_CACHE", "PROCTOR_RESULTS"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("PROCTOR_TRACEBACK", raising=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES << 10


def refused(read: Callable[[Path], object], file: Path) -> ProctorError | None:
    """How a reader refuses a file; None: it takes it."""
    try:
        read(file)
    except ProctorError as error:
        return error
    return None


def check_command(
    command: list[str], file: Path, capsys: pytest.CaptureFixture[str], *, harmless: bool = False
) -> None:
    """See that a command ends at once, with a sentence."""
    started = time.process_time()
    code = dispatch([word.replace("@", str(file.parent)) for word in command])
    taken = time.process_time() - started
    printed = capsys.readouterr()
    said = printed.err or printed.out  # a table of bad instances is the result of `validate`
    assert code in {UsageError.exit_code, InvalidData.exit_code} or (code == 0 and harmless), (code, said[:2000])
    assert "internal error" not in said, said[:2000]
    assert len(said) < MAX_OUTPUT
    assert is_within(taken, SECONDS)


def check_reader(read: Callable[[Path], object], file: Path, *, harmless: bool = False) -> None:
    started = time.process_time()
    error = refused(read, file)
    assert is_within(time.process_time() - started, SECONDS)
    assert error is not None or harmless
    if error is not None:
        assert error.exit_code in {UsageError.exit_code, InvalidData.exit_code}
        assert "\n" not in error.sentence


def make_giant(file: Path) -> None:
    """More than any machine has, of which nothing is on the disk."""
    file.touch()
    os.truncate(file, 1 << 42)


ODD_FILES: dict[str, Callable[[Path], None]] = {"giant": make_giant, "pipe": os.mkfifo, "folder": Path.mkdir}


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_ends_with_one_sentence(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, prepare, command = COMMANDS[kind]
    for number, (bomb_name, bomb) in enumerate(BOMBS[Path(name).suffix].items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        prepare(folder)
        file = write_in(folder, name, bomb.encode("utf-8", "surrogateescape"))
        check_command(command, file, capsys, harmless=bomb_name in HARMLESS)
    for odd, make in ODD_FILES.items():
        prepare(tmp_path / odd)
        (tmp_path / odd / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / odd / name).unlink(missing_ok=True)
        make(tmp_path / odd / name)
        check_command(command, tmp_path / odd / name, capsys, harmless=odd != "giant")


@pytest.mark.parametrize("kind", READERS)
def test_a_reader_raises_one_sentence(kind: str, tmp_path: Path) -> None:
    name, read = READERS[kind]
    for number, (bomb_name, bomb) in enumerate(BOMBS[Path(name).suffix].items()):
        file = write_in(tmp_path / str(number), name, bomb.encode("utf-8", "surrogateescape"))
        check_reader(read, file, harmless=bomb_name in HARMLESS)
    for odd, make in ODD_FILES.items() if kind not in TEXTS else ():
        (tmp_path / odd / name).parent.mkdir(parents=True)
        make(tmp_path / odd / name)
        check_reader(read, tmp_path / odd / name, harmless=odd != "giant")
