"""Makes docs/mining.svg: a repository is mined, and its suite shown.

make demo-svg
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from demo_svg import ROOT, write_picture

from mining_world import calculator

COMMANDS = (
    "suite mine ourapp --since 2026-03-01 --out suites/ourapp",
    "suite show suites/ourapp --tasks",
    "bench validate --suite suites/ourapp --quiet",
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        calculator(Path(folder) / "ourapp")
        # Wide enough for one task to be one line.
        variables = {**os.environ, "PROCTOR_CACHE": f"{folder}/cache", "COLUMNS": "108"}
        shown = []
        for command in COMMANDS:
            program = [str(Path(sys.executable).with_name("proctor")), *shlex.split(command)]
            done = subprocess.run(program, cwd=folder, env=variables, capture_output=True, text=True, check=True)
            progress = "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith("trying"))
            shown.append(f"\x1b[1m$ proctor {command}\x1b[0m\n{progress}{done.stdout}".replace(folder, "~"))
    write_picture("\n".join(shown), ROOT / "docs" / "mining.svg")


if __name__ == "__main__":
    main()
