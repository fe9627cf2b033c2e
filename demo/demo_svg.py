"""Makes docs/demo.svg from the demo's own output.

make demo && make demo-svg
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
# The doctor's table is as wide as this machine's paths are long, and says nothing about Proctor.
LEFT_OUT = "== Can this machine do it?"


def main() -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([ROOT / "demo" / "run.sh"], capture_output=True, text=True, check=True, env=environment)
    sections = done.stdout.split("\n\x1b[1m")
    shown = "\n".join(section for section in sections if LEFT_OUT not in section).replace(str(ROOT), "~/proctor")
    write_picture("$ make demo\n" + shown.replace("== ", "\x1b[1m== "), ROOT / "docs" / "demo.svg")


def write_picture(text: str, file: Path) -> None:
    """What a terminal shows, as a picture."""
    console = Console(record=True, width=108, file=sys.stderr, force_terminal=True)
    console.print(Text.from_ansi(text))
    picture = console.export_svg(title="proctor")
    # A picture asks nobody for a font.
    file.write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    main()
