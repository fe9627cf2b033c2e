"""SWE-bench Pro, graded as its repository's evaluation does.

https://github.com/scaleapi/SWE-bench_Pro-os
"""

import re
import shlex
from collections.abc import Iterator
from typing import Final

import msgspec

from proctor.benchmarks.swe.environment_steps import (
    SweTestRun,
    apply_in_environment,
    put_variant,
    run_bash,
    run_required,
)
from proctor.benchmarks.swe.instance_setup import InstanceSetup, StartState
from proctor.benchmarks.swe.official_grader import OfficialGrader, SweSubmission
from proctor.benchmarks.swe.official_rules import swe_bench_pro
from proctor.benchmarks.swe.prompts import SWE_BENCH_PRO_BODY, SWE_BENCH_PRO_PROMPT
from proctor.benchmarks.swe.rows import SweBenchProRow
from proctor.core.environment import Environment

WORKDIR: Final = "/app"
TIMEOUT_SECONDS: Final = 3600.0
_SCRIPTS_DIR: Final = "/workspace"
_BINARY: Final = re.compile(rb"^(?:GIT binary patch|Binary files .* differ)$", re.MULTILINE)


class _ProTestEntry(msgspec.Struct):
    name: str
    status: str


class _ProParserOutput(msgspec.Struct):
    tests: list[_ProTestEntry]


class SweBenchProGrader(OfficialGrader[SweBenchProRow]):
    """The official procedure for one instance."""

    grader_version = "swe-bench-pro ca10a60"
    test_seconds = TIMEOUT_SECONDS

    def start_state(self, row: SweBenchProRow) -> StartState:
        """The image, brought to the base commit as the official grader does."""
        commit = shlex.quote(row.base_commit)
        return StartState(workdir=WORKDIR, script=f"git reset --quiet --hard {commit}\ngit checkout --quiet {commit}\n")

    def instruction(self, row: SweBenchProRow) -> str:
        """Statement, requirements and interface. The instance's id, which holds the oracle's commit, is not shown."""
        body = SWE_BENCH_PRO_BODY.format(
            statement=row.problem_statement, requirements=row.requirements, interface=row.interface
        ).strip()
        return SWE_BENCH_PRO_PROMPT.format(workdir=WORKDIR, body=body)

    async def run_tests(
        self,
        environment: Environment,
        row: SweBenchProRow,
        setup: InstanceSetup,
        submission: SweSubmission,
        seconds: float,
    ) -> SweTestRun:
        """Reset, apply or continue without, add the tests, run the script, let the instance's own parser read it."""
        commit = shlex.quote(row.base_commit)
        await run_required(
            environment,
            f"cd {environment.workdir}\ngit config --global --add safe.directory '*'\n"
            f"git reset --quiet --hard {commit}\ngit checkout --quiet {commit}",
            "resetting the repository",
        )
        applied = await apply_in_environment(
            environment, without_binaries(submission.patch), ("git apply -v",), protected=submission.protected
        )
        await environment.put(
            row.run_script.encode("utf-8", "surrogateescape"), f"{_SCRIPTS_DIR}/run_script.sh", mode=0o755
        )
        await environment.put(row.parser.encode("utf-8", "surrogateescape"), f"{_SCRIPTS_DIR}/parser.py")
        await environment.put(row.test_patch.encode("utf-8", "surrogateescape"), f"{_SCRIPTS_DIR}/tests.diff")
        script = entry_script(row, environment.workdir, before_tests=await put_variant(environment, submission.variant))
        done = await run_bash(environment, setup.adapt_script(script), seconds=seconds)
        # The official grader runs the tests without the patch then; a submission that changes nothing cannot pass.
        is_applied = applied.command_index is not None or not submission.patch.strip()
        tested = SweTestRun(
            applied=is_applied,
            error="" if is_applied else applied.output,
            timed_out=done.timed_out,
            seconds=round(done.seconds, 3),
        ).with_patch(applied)
        if done.timed_out:
            return msgspec.structs.replace(tested, log=done.stdout)
        return await self._with_results(environment, row, tested)

    async def _with_results(self, environment: Environment, row: SweBenchProRow, run: SweTestRun) -> SweTestRun:
        said = await environment.exec(
            ["/bin/sh", "-c", f"cat {_SCRIPTS_DIR}/stdout.log; echo; echo '--- stderr'; cat {_SCRIPTS_DIR}/stderr.log"],
            output_bytes=100_000_000,
        )
        output = await environment.exec(["cat", f"{_SCRIPTS_DIR}/output.json"], output_bytes=100_000_000)
        run = msgspec.structs.replace(run, log=said.stdout)
        try:
            entries = msgspec.json.decode(output.stdout, type=_ProParserOutput).tests
        except (msgspec.DecodeError, RecursionError) as error:
            return msgspec.structs.replace(run, parse_error=f"the instance's parser left no results: {error}")
        statuses = {entry.name: entry.status for entry in entries}  # of two with one name, the last
        passed = {entry.name: "PASSED" for entry in entries if entry.status == "PASSED"}
        ruling = swe_bench_pro(passed, row.fail_to_pass, row.pass_to_pass)
        return msgspec.structs.replace(run, statuses=statuses, ruling=ruling)


def entry_script(row: SweBenchProRow, workdir: str, *, before_tests: str = ":") -> str:
    """What the official grader runs once the patch is in place."""
    logs = f"{_SCRIPTS_DIR}/stdout.log {_SCRIPTS_DIR}/stderr.log"
    files = shlex.quote(",".join(row.selected_test_files_to_run))
    return "\n".join(
        [
            *(f"export {line}" for line in env_lines(row.dockerfiles)),
            f"cd {workdir}",
            _tests_script(row),
            *(() if before_tests == ":" else (before_tests,)),
            f"bash {_SCRIPTS_DIR}/run_script.sh {files} > {_SCRIPTS_DIR}/stdout.log 2> {_SCRIPTS_DIR}/stderr.log",
            f"$(command -v python || echo python3) {_SCRIPTS_DIR}/parser.py {logs} {_SCRIPTS_DIR}/output.json",
            "",
        ]
    )


def _tests_script(row: SweBenchProRow) -> str:
    """The last of the instance's four lines: tests from the oracle's commit, where the environment's git has that.

    Elsewhere the same files, put back as they were and patched.
    """
    last = row.before_repo_set_cmd.strip().splitlines()[-1].strip()
    words = shlex.split(last)
    if words[:2] != ["git", "checkout"] or "--" not in words:
        return last
    commit, paths = shlex.quote(words[2]), shlex.join(words[words.index("--") + 1 :])
    return "\n".join(
        [
            f"if git cat-file -e {commit}^{{commit}} 2> /dev/null; then",
            f"  {last}",
            "else",
            f"  rm -rf -- {paths}",
            f'  for path in {paths}; do git checkout --quiet HEAD -- "$path" 2> /dev/null; done',
            f"  git apply {_SCRIPTS_DIR}/tests.diff",
            "fi",
        ]
    )


def env_lines(dockerfiles: tuple[str, ...]) -> Iterator[str]:
    """The assignments of Dockerfiles' ENV lines, which hold for the tests. `ENV NAME value` is an older form of one."""
    for text in dockerfiles:
        for line in text.replace("\\\n", " ").splitlines():
            word, _, rest = line.strip().partition(" ")
            if word.upper() != "ENV" or not rest.strip():
                continue
            rest = rest.strip()
            name, separator, value = rest.partition(" ")
            yield rest if "=" in name or not separator else f"{name}={shlex.quote(value.strip())}"


def without_binaries(patch: bytes) -> bytes:
    """A diff without the files that it gives as binaries, as the official grader takes it."""
    parts = re.split(rb"(?m)^(?=diff --git )", patch)
    return b"".join(part for part in parts if not _BINARY.search(part))
