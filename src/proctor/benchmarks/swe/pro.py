"""SWE-bench Pro, graded as its repository's evaluation does.

https://github.com/scaleapi/SWE-bench_Pro-os
"""

import re
import shlex
from collections.abc import Iterator
from typing import Final

import msgspec

from proctor.benchmarks.swe.recipe import Recipe, Start
from proctor.benchmarks.swe.rows import ProRow
from proctor.benchmarks.swe.rules import swe_bench_pro
from proctor.benchmarks.swe.steps import Trial, apply, put_back, required, shell
from proctor.core.environment import Environment

WORKDIR: Final = "/app"
SECONDS: Final = 3600.0
_PLACE: Final = "/workspace"
_PROMPT: Final = """\
The repository in {workdir} needs a change that this description tells of:

<pr_description>
{body}
</pr_description>

Change the source code in {workdir} so that what is described works, also in cases that are not spelled out. Tests for
it exist already and are not yours to write: leave test files and the configuration of tests alone."""
# The part that the official prompt is made of, in its words.
_BODY: Final = "{statement}\n\nRequirements:\n{requirements}\n\nNew interfaces introduced:\n{interface}"
_BINARY: Final = re.compile(rb"^(?:GIT binary patch|Binary files .* differ)$", re.MULTILINE)


class _Entry(msgspec.Struct):
    name: str
    status: str


class _Output(msgspec.Struct):
    tests: list[_Entry]


class SweBenchPro:
    """The official procedure for one instance."""

    grader = "swe-bench-pro ca10a60"
    seconds = SECONDS
    grades_empty = True
    degree: str | None = None

    def start(self, row: ProRow) -> Start:
        """The image, brought to the base commit as the official grader does."""
        commit = shlex.quote(row.base_commit)
        return Start(workdir=WORKDIR, script=f"git reset --quiet --hard {commit}\ngit checkout --quiet {commit}\n")

    def instruction(self, row: ProRow) -> str:
        """Statement, requirements and interface. The instance's id, which holds the answer's commit, is not told."""
        body = _BODY.format(
            statement=row.problem_statement, requirements=row.requirements, interface=row.interface
        ).strip()
        return _PROMPT.format(workdir=WORKDIR, body=body)

    def gold(self, row: ProRow) -> bytes:
        """The reference patch."""
        return row.patch.encode("utf-8", "surrogateescape")

    async def test(
        self, room: Environment, row: ProRow, recipe: Recipe, patch: bytes, *, restore: tuple[str, ...], seconds: float
    ) -> Trial:
        """Reset, apply or go on without, bring the tests in, run the script, let the instance's own parser read it."""
        commit = shlex.quote(row.base_commit)
        await required(
            room,
            f"cd {room.workdir}\ngit config --global --add safe.directory '*'\n"
            f"git reset --quiet --hard {commit}\ngit checkout --quiet {commit}",
            "resetting the repository",
        )
        applied = await apply(room, without_binaries(patch), ("git apply -v",))
        await put_back(room, restore)
        await room.put(row.run_script.encode("utf-8", "surrogateescape"), f"{_PLACE}/run_script.sh", mode=0o755)
        await room.put(row.parser.encode("utf-8", "surrogateescape"), f"{_PLACE}/parser.py")
        await room.put(row.test_patch.encode("utf-8", "surrogateescape"), f"{_PLACE}/tests.diff")
        done = await shell(room, recipe.script(entry_script(row, room.workdir)), seconds=seconds)
        # The official grader runs the tests without the patch then; an answer that changes nothing cannot pass.
        is_applied = applied.way is not None or not patch.strip()
        tested = Trial(
            applied=is_applied,
            touched=applied.touched,
            complaint="" if is_applied else applied.said,
            timed_out=done.timed_out,
            seconds=round(done.seconds, 3),
        )
        if done.timed_out:
            return msgspec.structs.replace(tested, log=done.stdout)
        return await self._read(room, row, tested)

    async def _read(self, room: Environment, row: ProRow, tested: Trial) -> Trial:
        said = await room.exec(
            ["/bin/sh", "-c", f"cat {_PLACE}/stdout.log; echo; echo '--- stderr'; cat {_PLACE}/stderr.log"],
            output_bytes=100_000_000,
        )
        output = await room.exec(["cat", f"{_PLACE}/output.json"], output_bytes=100_000_000)
        tested = msgspec.structs.replace(tested, log=said.stdout)
        try:
            entries = msgspec.json.decode(output.stdout, type=_Output).tests
        except (msgspec.DecodeError, RecursionError) as error:
            return msgspec.structs.replace(tested, unreadable=f"the instance's parser left no results: {error}")
        statuses = {entry.name: entry.status for entry in entries}  # of two with one name, the last
        passed = {entry.name: "PASSED" for entry in entries if entry.status == "PASSED"}
        ruling = swe_bench_pro(passed, row.fail_to_pass, row.pass_to_pass)
        return msgspec.structs.replace(tested, statuses=statuses, ruling=ruling)


def entry_script(row: ProRow, workdir: str) -> str:
    """What the official grader runs once the patch is in place."""
    logs = f"{_PLACE}/stdout.log {_PLACE}/stderr.log"
    files = shlex.quote(",".join(row.selected_test_files_to_run))
    return "\n".join(
        [
            *(f"export {line}" for line in env_lines(row.dockerfiles)),
            f"cd {workdir}",
            _bring_tests(row),
            f"bash {_PLACE}/run_script.sh {files} > {_PLACE}/stdout.log 2> {_PLACE}/stderr.log",
            f"$(command -v python || echo python3) {_PLACE}/parser.py {logs} {_PLACE}/output.json",
            "",
        ]
    )


def _bring_tests(row: ProRow) -> str:
    """The last of the instance's four lines: tests from the answer's commit, where the room's git has that.

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
            f"  git apply {_PLACE}/tests.diff",
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
