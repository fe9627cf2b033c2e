"""The commands, as x07 spells them: test, lint, fix, fmt, ast apply-patch, --version."""

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from x07_standin.language import NotAst, check_ast, read_ast, written
from x07_standin.linter import lint, report
from x07_standin.testing import VERSION, Refused, run

LAST_REPORT = ".x07-standin.report.json"
COUNTER = ".x07-standin.count"


def main(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(f"x07 {VERSION}")
        return 0
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except (Refused, NotAst, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="x07", allow_abbrev=False)
    commands = parser.add_subparsers(required=True)
    test = commands.add_parser("test", allow_abbrev=False)
    test.add_argument("--manifest", default="tests/tests.json")
    test.add_argument("--module-root", action="append", default=[])
    test.add_argument("--stdlib-lock", default="stdlib.lock")
    test.add_argument("--filter")
    test.add_argument("--repeat", type=int, default=1)
    test.add_argument("--jobs", type=int, default=1)
    test.add_argument("--artifact-dir", default="target/x07test")
    test.add_argument("--report-out")
    test.add_argument("--json", choices=["false", "off", "canon", "pretty"], default="canon")
    for flag in ("--exact", "--no-fail-fast", "--no-run", "--verbose", "--keep-artifacts"):
        test.add_argument(flag, action="store_true")
    test.set_defaults(command=_test)
    for name, command in (("lint", _lint), ("fix", _fix), ("fmt", _fmt)):
        subparser = commands.add_parser(name, allow_abbrev=False)
        subparser.add_argument("--input", action="append", required=True)
        subparser.add_argument("--world", default="run-os")
        for flag in ("--write", "--check", "--pretty"):
            subparser.add_argument(flag, action="store_true")
        subparser.set_defaults(command=command)
    apply = commands.add_parser("ast").add_subparsers(required=True).add_parser("apply-patch", allow_abbrev=False)
    apply.add_argument("--in", dest="input", required=True)
    apply.add_argument("--patch", required=True)
    apply.set_defaults(command=_apply_patch)
    return parser


def _misbehaviour(command: str) -> str | None:
    file = Path("x07-standin.json")
    text = os.environ.get("X07_STANDIN") or (file.read_text() if file.is_file() else "{}")
    chosen: str | None = json.loads(text).get(command)
    if chosen == "hang":
        time.sleep(3600)
    return chosen


def _test(options: argparse.Namespace) -> int:
    wrong = _misbehaviour("test")
    target = Path(options.report_out) if options.report_out else None
    if wrong == "die":
        print("thread 'main' panicked at the stand-in", file=sys.stderr)
        return 101
    if wrong == "stale" and target and Path(LAST_REPORT).is_file():
        _write(target, Path(LAST_REPORT).read_bytes())
        print("thread 'main' panicked at the stand-in", file=sys.stderr)
        return 101
    document, code = run(options, sys.argv)
    if wrong == "flaky":
        document, code = _every_second_time_otherwise(document, code)
    if wrong == "lie":
        for test in document["tests"]:
            test["status"] = "pass"
        document["summary"].update(passed=len(document["tests"]), failed=0, errors=0)
        code = 10
    data = b"{ not JSON" if wrong == "garbage" else json.dumps(document).encode() + b"\n"
    if target:
        _write(target, data)
        if wrong == "stale":
            _write(Path(LAST_REPORT), data)
    if options.keep_artifacts:
        for test in (test for test in document["tests"] if "compile" in test):
            name = "id_" + hashlib.sha256(test["id"].encode()).hexdigest()
            _write(Path(options.artifact_dir) / "tests" / name / "driver.x07.json", b"{}\n")
    if options.json in {"false", "off"}:
        numbers = document["summary"]
        print("summary: " + " ".join(f"{key}={numbers[key]}" for key in ("passed", "failed", "skipped", "errors")))
    else:
        sys.stdout.write(data.decode())
    return code


def _every_second_time_otherwise(document: dict[str, Any], code: int) -> tuple[dict[str, Any], int]:
    counter = Path(COUNTER)
    runs = int(counter.read_text()) + 1 if counter.is_file() else 1
    counter.write_text(str(runs))
    if runs % 2:
        return document, code
    other = {"pass": "fail", "fail": "pass"}
    for test in document["tests"]:
        test["status"] = other.get(test["status"], test["status"])
    numbers = document["summary"]
    numbers["passed"], numbers["failed"] = numbers["failed"], numbers["passed"]
    return document, 10 if numbers["failed"] else 0


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def _read(file: str) -> dict[str, Any]:
    try:
        return read_ast(Path(file))
    except NotAst as error:
        raise NotAst(f"parse x07ast JSON: {file}: {error}") from error


def _lint(options: argparse.Namespace) -> int:
    _misbehaviour("lint")
    diagnostics = [diagnostic for file in options.input for diagnostic in lint(_read(file), file)]
    print(json.dumps(report(diagnostics, options.input)))
    return 1 if diagnostics else 0


def _fix(options: argparse.Namespace) -> int:
    clean = True
    for file in options.input:
        document = json.loads(written(_read(file)))
        for _ in range(5):
            patch = [op for found in lint(document, file) if "quickfix" in found for op in found["quickfix"]["patch"]]
            if not patch:
                break
            # Deepest first, so that repairing an outer expression does not undo an inner one.
            for op in sorted(patch, key=lambda op: op["path"], reverse=True):
                _replace(document, op["path"], op["value"])
        clean = clean and not lint(document, file)
        if options.write:
            _write(Path(file), written(document).encode())
        else:
            sys.stdout.write(written(document))
    return 0 if clean else 1


def _fmt(options: argparse.Namespace) -> int:
    if options.check == options.write:
        raise Refused("set exactly one of --check or --write")
    unformatted = []
    for file in options.input:
        text = written(_read(file), pretty=options.pretty)
        if Path(file).read_text() != text:
            unformatted.append(file)
            if options.write:
                _write(Path(file), text.encode())
    if options.check:
        for file in unformatted:
            print(f"file is not formatted: {file}", file=sys.stderr)
    return 1 if options.check and unformatted else 0


def _apply_patch(options: argparse.Namespace) -> int:
    document = json.loads(written(_read(options.input)))
    try:
        for op in json.loads(Path(options.patch).read_bytes()):
            if op["op"] != "replace":
                raise Refused(f"the stand-in only replaces, not {op['op']}")
            _replace(document, op["path"], op["value"])
    except (LookupError, TypeError, ValueError) as error:
        print(f"apply patch failed: {error}", file=sys.stderr)
        return 21
    text = written(check_ast(document))
    _write(Path(options.input), text.encode())
    digest = hashlib.sha256(text.encode()).hexdigest()
    print(json.dumps({"ok": True, "in": options.input, "out": options.input, "sha256": digest}))
    return 0


def _replace(document: Any, pointer: str, value: Any) -> None:
    *way, last = pointer.split("/")[1:]
    for token in way:
        document = document[int(token)] if isinstance(document, list) else document[token]
    key: Any = int(last) if isinstance(document, list) else last
    if isinstance(document, dict) and key not in document:
        raise LookupError(f"path not found: {pointer}")
    document[key] = value
