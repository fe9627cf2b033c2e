"""What a machine is like after the agent has finished, asked in one command: shells, processes, programs, marked files.

The command is run by copies of the image's own shell and tools, which were put there for it.
"""

import secrets
from collections.abc import Sequence
from typing import Final

from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.grading.state.processes import LIST_PROCESSES, ProcessList, parse_process_list
from proctor.grading.state.programs import FIND_PROGRAMS, ProgramTable, parse_programs
from proctor.grading.state.snapshot import SHOW_SHELLS, ShellState, parse_shells

# Names the files that hold one of the words in its input.
_FIND_MARKERS: Final = r"""
words=$1 since=$2; shift 2
cat >"$words"
find "$@" -xdev -type f -size -512k -newerct "@$since" ! -path "${words%/*}/*" \
  -exec grep -lsaF -f "$words" {} + 2>/dev/null | head -n 50
rm -f "$words"
"""
# Its input: a line that parts its output, the names of programs, an empty line, and the words to look for. Arguments:
# where programs are searched; a file for the words, since when, and where to look for them.
INSPECT_SCRIPT: Final = f"""
IFS= read -r mark
({SHOW_SHELLS})
echo "$mark"
({LIST_PROCESSES})
echo "$mark"
({FIND_PROGRAMS})
echo "$mark"
shift
[ $# -eq 0 ] || ({_FIND_MARKERS})
echo "$mark"
"""
_SECONDS: Final = 120
_MAX_BYTES: Final = 100_000_000


class Inspection(Record):
    """What there is. `marked_files`: those with one of the words that were looked for."""

    shells: tuple[ShellState, ...]
    processes: ProcessList
    programs: ProgramTable
    marked_files: tuple[str, ...]


async def inspect(
    environment: Environment,
    grader_dir: str,
    *,
    path: str,
    search_path: str,
    names: Sequence[str] = (),
    markers: Sequence[str] = (),
    marker_dirs: Sequence[str] = (),
    since: float = 0,
) -> Inspection:
    """Look at an environment with the tools in `grader_dir`, which are first on `path`.

    Args:
        environment: where to look.
        grader_dir: has `inspect`, the script, and `shell`.
        path: where the tools are found.
        search_path: where the programs with these `names` are searched.
        names: of programs.
        markers: words to look for, in files below `marker_dirs` that were changed after `since`.
        marker_dirs: likewise.
        since: likewise.

    Raises:
        InfrastructureError: the environment cannot be inspected.
    """
    mark = f"={secrets.token_hex(16)}"
    scanning = [f"{grader_dir}/words", str(int(since)), *marker_dirs] if markers else []
    asked = await environment.exec(
        [f"{grader_dir}/shell", f"{grader_dir}/inspect", search_path, *scanning],
        stdin="".join(f"{line}\n" for line in (mark, *dict.fromkeys(names), "", *markers)).encode(),
        variables={"PATH": path},
        cwd="/",
        timeout=_SECONDS,
        output_bytes=_MAX_BYTES,
    )
    parts = asked.stdout.decode("utf-8", "replace").split(f"{mark}\n")
    if asked.timed_out or len(parts) != 5:  # noqa: PLR2004 - as the script prints them
        error = asked.stderr.decode("utf-8", "replace").strip()[-300:]
        raise InfrastructureError(f"the environment cannot be inspected: {error or asked.exit_code}")
    shells, processes, programs, marked, _ = parts
    return Inspection(
        shells=parse_shells(shells),
        processes=parse_process_list(processes.removeprefix("\n")),
        programs=parse_programs(programs),
        marked_files=tuple(marked.splitlines()),
    )
