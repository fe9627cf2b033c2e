"""What is put into an environment to grade in it: copies of the image's own shell and tools, and scripts for them."""

import os
import shutil
from pathlib import Path
from typing import Final

from proctor.grading.state.inspection import INSPECT_SCRIPT
from proctor.grading.state.processes import LIST_PROCESSES
from proctor.grading.state.programs import TRUSTED_TOOLS
from proctor.grading.state.snapshot import EnvironmentSnapshot, program_copies_dir

HALF_STREAM_BYTES: Final = 500_000
# The command is the shell's input: it is in no file and no argument, where programs that it calls could read it. Its
# output goes into files, not into pipes, which what it leaves in the background would hold open as long as it lives.
READ_AND_RUN: Final = 'command=$(cat); exec </dev/null; eval "$command"'
# Its input: a line that parts its output, then the command. Arguments: this folder, and the shell for the command.
# Prints the processes before and after it, and the beginning and the end of what it has printed itself.
_RUN_SCRIPT: Final = f"""
IFS= read -r mark
({LIST_PROCESSES})
echo "$mark"
(umask 022; exec "$2" -c '{READ_AND_RUN}' sh >"$1/out" 2>"$1/err")
code=$?
exec </dev/null
({LIST_PROCESSES})
for file in "$1/out" "$1/err"; do
  echo "$mark"; head -c {HALF_STREAM_BYTES} "$file"
  echo "$mark"; tail -c +{HALF_STREAM_BYTES + 1} "$file" | tail -c {HALF_STREAM_BYTES}
done
echo "$mark"
exit "$code"
"""


def make_tool_kit(snapshot: EnvironmentSnapshot, folder: Path) -> Path:
    """A folder with trusted copies of tools in `bin`, the shell as `shell`, and the scripts `inspect` and `run`."""
    kit = folder / "kit"
    shutil.rmtree(kit, ignore_errors=True)
    (kit / "bin").mkdir(parents=True)
    programs = {f"bin/{name}": copy for name, copy in snapshot.copies.items() if name in TRUSTED_TOOLS}
    for name, copy in {**programs, "shell": snapshot.shells[0].copy}.items():
        os.link(program_copies_dir(folder) / copy, kit / name)
        (kit / name).chmod(0o755)
    for name, script in (("inspect", INSPECT_SCRIPT), ("run", _RUN_SCRIPT)):
        (kit / name).write_text(script)
        (kit / name).chmod(0o644)
    return kit
