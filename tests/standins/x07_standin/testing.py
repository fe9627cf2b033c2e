"""`x07 test`: the manifest, the runs, the report, the exit code."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from x07_standin.language import DoesNotCompile, Failure, Program, Trap

VERSION = "0.2.17"
WORLDS = {"solve-pure", "solve-fs", "solve-rr", "solve-kv", "solve-full", "run-os", "run-os-sandboxed"}
EXPECTED = {("pass", "pass"), ("fail", "xfail_fail"), ("skip", "skip")}
Test = dict[str, Any]


class Refused(Exception):
    """Wrong usage: exit code 2, one line on stderr, no report."""


def run(options: argparse.Namespace, argv: list[str]) -> tuple[dict[str, Any], int]:
    """The report and the exit code."""
    started = time.monotonic()
    manifest = Path(options.manifest)
    roots = [Path(root) for root in options.module_root] or [manifest.parent]
    tests, problems = _read_manifest(manifest)
    if not problems:
        problems = _missing_entries(tests, roots)
    if problems:
        for problem in problems:
            print(problem, file=sys.stderr)
        return _report([], argv, options, started, errors=len(problems)), 12
    chosen = sorted(_chosen(tests, options), key=lambda test: str(test["id"]))
    if not chosen:
        raise Refused(f"0 tests selected (manifest had {len(tests)}; filter={options.filter!r})")
    _find_lock(options.stdlib_lock, manifest)
    if options.jobs != 1 and not options.no_fail_fast:
        raise Refused("--jobs >1 requires --no-fail-fast")
    results: list[dict[str, Any]] = []
    stopped = False
    for test in chosen:
        if stopped:
            results.append(_result(test, "skip", diags=[_diag("EFAIL_FAST", "skipped due to earlier failure")]))
            continue
        if options.verbose:
            print(f"test: {test['id']}", file=sys.stderr)
        results.append(_run_one(test, roots, options))
        stopped = not options.no_fail_fast and _is_failure(results[-1], no_run=options.no_run)
    report = _report(results, argv, options, started)
    return report, _exit_code(report, no_run=options.no_run)


def _read_manifest(file: Path) -> tuple[list[Test], list[str]]:
    try:
        document = json.loads(file.read_bytes())
        tests = document["tests"]
        version = document["schema_version"]
    except OSError as error:
        return [], [f"ETEST_MANIFEST_IO: failed to read manifest: {error.strerror} ()"]
    except (ValueError, TypeError, KeyError) as error:
        return [], [f"ETEST_MANIFEST_JSON: invalid JSON: {error} ()"]
    problems = []
    if version not in {"x07.tests_manifest@0.1.0", "x07.tests_manifest@0.2.0"}:
        problems.append(f"ETEST_SCHEMA_VERSION: got {version} (/schema_version)")
    if not tests:
        problems.append("ETEST_TESTS_EMPTY: tests array is empty (/tests)")
    seen: set[str] = set()
    for index, test in enumerate(tests):
        if test["id"] in seen:
            problems.append(f"ETEST_ID_DUPLICATE: duplicate id: {test['id']} (/tests/{index}/id)")
        seen.add(test["id"])
        if test.get("world") not in WORLDS:
            problems.append(f"ETEST_WORLD_INVALID: invalid world: {test.get('world')} (/tests/{index}/world)")
        if test.setdefault("expect", "pass") not in {"pass", "fail", "skip"}:
            problems.append(f"ETEST_EXPECT_INVALID: invalid expect (/tests/{index}/expect)")
    return tests, problems


def _missing_entries(tests: list[Test], roots: list[Path]) -> list[str]:
    problems = []
    for test in tests:
        module = str(test["entry"]).rpartition(".")[0]
        files = [root / Path(*module.split(".")).with_suffix(".x07.json") for root in roots]
        try:
            documents = [json.loads(file.read_bytes()) for file in files if file.is_file()]
            names = {decl.get("name") for document in documents for decl in document["decls"]}
        except (ValueError, KeyError, TypeError):
            problems.append(f"ETEST_ENTRY_INVALID: read test entry module: {files[0]} ({test['entry']})")
            continue
        if test["entry"] not in names:
            problems.append(f'ETEST_ENTRY_INVALID: entry "{test["entry"]}" was not found ({test["entry"]})')
    return problems


def _chosen(tests: list[Test], options: argparse.Namespace) -> list[Test]:
    if options.filter is None:
        return tests
    if options.exact:
        return [test for test in tests if test["id"] == options.filter]
    return [test for test in tests if options.filter in test["id"]]


def _find_lock(lock: str, manifest: Path) -> None:
    """From the manifest's folder upwards, then from the program's."""
    places = [manifest.resolve().parent, Path(__file__).resolve().parent]
    candidates = [folder / lock for place in places for folder in (place, *place.parents)]
    if not any(candidate.exists() for candidate in ([Path(lock)] if Path(lock).is_absolute() else candidates)):
        raise Refused(f"could not find stdlib lock file: {lock} (pass --stdlib-lock <path>)")


def _run_one(test: Test, roots: list[Path], options: argparse.Namespace) -> dict[str, Any]:
    if test["expect"] == "skip":
        return _result(test, "skip")
    started = time.monotonic()
    try:
        program = Program(roots, test["entry"])
    except DoesNotCompile as error:
        return _result(test, "error", compiled=False, diags=[_diag("ETEST_COMPILE", str(error))], started=started)
    if options.no_run:
        return _result(test, "skip", compiled=True, started=started)
    try:
        for _ in range(options.repeat):
            outcome = program.run()
    except Trap as trap:
        diag = {**_diag("X07T_RUN_TRAP", "runner trapped"), "details": {"trap": str(trap)}}
        return _result(test, "error", compiled=True, ran=False, diags=[diag], started=started)
    failed = isinstance(outcome, Failure)
    status = {("pass", False): "pass", ("pass", True): "fail", ("fail", True): "xfail_fail"}.get(
        (test["expect"], failed), "xfail_pass"
    )
    return _result(test, status, compiled=True, ran=True, started=started)


def _result(
    test: Test,
    status: str,
    *,
    compiled: bool | None = None,
    ran: bool | None = None,
    diags: list[dict[str, Any]] | None = None,
    started: float | None = None,
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "id": test["id"],
        "world": test["world"],
        "expect": test["expect"],
        "status": status,
        "duration_ms": int((time.monotonic() - started) * 1000) if started else 0,
        "entry_kind": "defn",
        "entry": test["entry"],
    }
    if compiled is not None:
        result["compile"] = {"ok": compiled, "exit_code": 0 if compiled else 1}
    if ran is not None:
        result["run"] = {"ok": ran, "exit_code": 0 if ran else 1}
    return {**result, "diags": diags} if diags else result


def _diag(code: str, message: str) -> dict[str, Any]:
    return {"code": code, "message": message}


def _is_failure(result: dict[str, Any], *, no_run: bool) -> bool:
    if no_run:
        return not result.get("compile", {"ok": True})["ok"]
    return (result["expect"], result["status"]) not in EXPECTED


def _report(
    results: list[dict[str, Any]], argv: list[str], options: argparse.Namespace, started: float, *, errors: int = 0
) -> dict[str, Any]:
    def count(status: str) -> int:
        return sum(result["status"] == status for result in results)

    return {
        "schema_version": "x07.x07test@0.4.0",
        "tool": {"name": "x07", "version": VERSION},
        "invocation": {
            "argv": argv,
            "cwd": str(Path.cwd()),
            "started_at_unix_ms": 0,
            "repeat": options.repeat,
            "jobs": options.jobs,
            "manifest_path": options.manifest,
            "stdlib_lock": options.stdlib_lock,
        },
        "summary": {
            "passed": count("pass"),
            "failed": count("fail"),
            "skipped": count("skip"),
            "errors": count("error") + errors,
            "xfail_passed": count("xfail_pass"),
            "xfail_failed": count("xfail_fail"),
            "duration_ms": int((time.monotonic() - started) * 1000),
            "compile_failures": sum(not result.get("compile", {"ok": True})["ok"] for result in results),
            "run_failures": sum(not result.get("run", {"ok": True})["ok"] for result in results),
        },
        "tests": results,
    }


def _exit_code(report: dict[str, Any], *, no_run: bool) -> int:
    if report["summary"]["compile_failures"]:
        return 11
    if no_run:
        return 0
    if report["summary"]["run_failures"]:
        return 12
    return 10 if any((test["expect"], test["status"]) not in EXPECTED for test in report["tests"]) else 0
