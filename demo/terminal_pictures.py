"""Makes the pictures of terminals in docs/: what is typed is typed in a real bash, in tmux, and what it shows is drawn.

make screenshots
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# A plain path: it can be read in the pictures.
WORK = Path("/tmp/proctor")  # noqa: S108
PROMPT = "$ "
PATIENCE = 600
WIDTH = 118


class Terminal:
    """A bash in a terminal of its own."""

    def __init__(self, name: str, width: int) -> None:
        self._name, self._width = name, width
        self._socket = f"pictures-{time.monotonic_ns()}"  # a server that is ending takes no session

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self) -> None:
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(WORK),
            "TERM": "tmux-256color",
            "LANG": "C.UTF-8",
            "XDG_CACHE_HOME": str(WORK / ".cache"),
            "PYTEST_ADDOPTS": "-p no:cacheprovider -p no:asyncio",  # whose warnings name folders of this machine
        }
        # None of the caller's own variables is in a picture.
        bash = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), "bash", "--norc", "--noprofile"]
        size = ("-x", str(self._width), "-y", "60")
        self.tmux("new-session", "-d", "-s", self._name, *size, "-c", str(WORK), shlex.join(bash))
        self.type(f"PS1='{PROMPT}'; bind 'set bell-style none'; source <(proctor completion bash); clear")
        self.wait_for_prompt()

    def type(self, line: str, *, enter: bool = True) -> None:
        self.tmux("send-keys", "-t", self._name, "-l", line)
        if enter:
            self.press("Enter")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", self._name, *keys)

    def lines(self, *, colours: bool = False) -> list[str]:
        text = self.tmux("capture-pane", "-p", "-t", self._name, "-S", "-", *(["-e"] if colours else []))
        lines = text.rstrip("\n").split("\n")
        while lines and not lines[-1].strip():
            lines.pop()
        return lines

    def wait_for_prompt(self) -> None:
        self.wait(lambda lines: bool(lines) and lines[-1].rstrip() == PROMPT.strip())

    def wait(self, happens: Callable[[list[str]], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happens(self.lines()):
            if time.monotonic() > deadline:
                raise SystemExit("\n".join(self.lines()))
            time.sleep(0.1)

    def draw(self, picture: str) -> None:
        """Keep what can be seen as docs/PICTURE.svg, without the prompt that waits."""
        lines = self.lines(colours=True)
        if re.sub(r"\x1b\[[0-9;]*m", "", lines[-1]).rstrip() == PROMPT.strip():
            lines.pop()
        console = Console(record=True, width=self._width, file=io.StringIO(), force_terminal=True)
        console.print(Text.from_ansi("\n".join([*lines, ""])))  # the lowest line is drawn in part
        drawn = console.export_svg(title="proctor")
        # A picture asks nobody for a font.
        (DOCS / f"{picture}.svg").write_text(re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL))


@contextmanager
def terminal(width: int = WIDTH) -> Iterator[Terminal]:
    made = Terminal("picture", width)
    made.start()
    try:
        yield made
    finally:
        made.tmux("kill-server")


def draw(picture: str, *lines: str, width: int = WIDTH) -> None:
    """What some commands print."""
    with terminal(width) as one:
        for line in lines:
            one.type(line)
            one.wait_for_prompt()
        one.draw(picture)
    print(f"docs/{picture}.svg")


def quiet(*words: str) -> None:
    """A command whose output nobody sees."""
    env = {**os.environ, "XDG_CACHE_HOME": str(WORK / ".cache")}
    subprocess.run(
        [Path(sys.executable).with_name("proctor"), *words], cwd=WORK, env=env, check=True, capture_output=True
    )


def main() -> None:
    if shutil.which("tmux") is None:
        sys.exit("there is no tmux on this machine; on Debian: apt-get install tmux")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    draw("init", "proctor init mine", "mine/run.sh", width=130)
    quiet("bench", "run", "core-mini", "--agent", "nop", "--name", "nothing", "--quiet")
    named = ("--name", "nightly", "--tag", "purpose=release", "--note", "after the new prompt")
    quiet("bench", "run", "core-mini", "--agent", "oracle", *named, "--quiet")
    draw("runs", "proctor runs", "proctor runs list core-mini --sort rate --tag purpose", width=150)
    with terminal() as one:
        one.type("proctor runs delete nothing")
        one.wait(lambda lines: "permanently?" in lines[-1])
        one.type("n")
        one.wait_for_prompt()
        one.draw("runs-delete")
    draw(
        "mistyped",
        "proctor bench run core-mni --model sonnet",
        "proctor bench run core-mini --agent claude_cod --model sonnet",
        "proctor bench run core-mini --task py_cach_0001 --model sonnet",
        "proctor bench run core-mini --model sonet",
        "proctor bench run core-mini --max-costs 3",
    )
    with terminal() as one:
        one.type("proctor bench show ni", enter=False)
        one.press("Tab")
        one.wait(lambda lines: "nightly" in lines[-1])
        one.press("Enter")
        one.wait_for_prompt()
        one.type("proctor bench run core-mini --max-", enter=False)
        one.press("Tab")
        one.press("Tab")
        one.wait(lambda lines: any("--max-turns" in line for line in lines))
        one.draw("completion")
    draw_watch()
    draw("gpus", "proctor bench run core-mini --agent oracle --runner docker --gpus 1")
    draw("plugin", "proctor plugin new agent my_agent", "pytest -q my_agent")
    write_frames()
    draw("frames", "cat frames.py", "python frames.py", width=110)
    shutil.rmtree(WORK)


def draw_watch() -> None:
    """A run that is going on elsewhere, and what its end calls."""
    hook = f"--notify={shlex.join(['tee', str(WORK / 'ended.json')])}"
    words = [
        "--agent",
        "command",
        "--agent-command",
        "sleep 6",
        "--name",
        "long",
        "--concurrency",
        "2",
        "--quiet",
        hook,
    ]
    env = {**os.environ, "XDG_CACHE_HOME": str(WORK / ".cache")}
    command = [Path(sys.executable).with_name("proctor"), "bench", "run", "core-mini", *words]
    with subprocess.Popen(command, cwd=WORK, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while "long" not in "".join(path.read_text() for path in WORK.glob("results/core-mini/*/config.json")):
            time.sleep(0.1)
        with terminal() as one:
            one.type("proctor bench watch long")
            one.wait(lambda lines: any("[2/4]" in line for line in lines) and "solving" in lines[-1])
            one.draw("watch")
        running.wait()
    draw("notify", "python -m json.tool ended.json | head -24")


def write_frames() -> None:
    (WORK / "frames.py").write_text(
        """\
import polars as pl
import proctor

tests = proctor.load_results("nightly").to_frame("tests")
print(tests.group_by("task").agg(pl.len(), (pl.col("before") != pl.col("after")).sum().alias("changed")).sort("task"))
"""
    )


if __name__ == "__main__":
    main()
