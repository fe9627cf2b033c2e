"""Each shell on a real terminal."""

import os
import pty
import select
import shutil
import sys
import time
from pathlib import Path

import pytest

from proctor.sandboxes import Sandboxes
from proctor.sandboxes.shells import shell_command, user_shell
from waiting import PATIENCE

SHELLS = [shell for shell in ("bash", "zsh", "fish", "dash", "sh") if shutil.which(shell)]
START_UP = {
    "bash": (".bashrc", "PS1='mine> '\nMARK=from-start-up\n"),
    "zsh": (".zshrc", "PROMPT='mine> '\nMARK=from-start-up\n"),
    "fish": (".config/fish/config.fish", "function fish_prompt; echo -n 'mine> '; end\nset MARK from-start-up\n"),
}


class Terminal:
    """A process on a terminal."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self._pid, self._screen = pty.fork()
        if self._pid == 0:
            os.execvpe(command[0], command, environ)
        self.shown = ""

    def read_until(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._screen], [], [], 0.1)[0]:
                chunk = os.read(self._screen, 65536).decode(errors="replace")
                if "\x1b[c" in chunk or "\x1b[0c" in chunk:  # fish asks what kind of terminal this is
                    os.write(self._screen, b"\x1b[?62;22c")
                self.shown += chunk

    def type(self, line: str) -> None:
        self.shown = ""
        os.write(self._screen, line.encode() + b"\r")

    def end(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                os.close(self._screen)
                return os.waitstatus_to_exitcode(status)
            if select.select([self._screen], [], [], 0.05)[0]:
                try:
                    os.read(self._screen, 65536)
                except OSError:
                    continue
        raise AssertionError("the shell did not end")


def test_at_least_bash_and_sh_are_there() -> None:
    assert {"bash", "sh"} <= set(SHELLS)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_prompt_shows_the_sandbox_and_the_users_own_start_up_is_read(store: Sandboxes, shell: str) -> None:
    box = store.create("b1")
    if shell in START_UP:
        name, content = START_UP[shell]
        file = Path(os.environ["HOME"], name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "TERM": "xterm",
        "SHELL": shutil.which(shell) or shell,
        "PROCTOR_SANDBOXES": str(store.root),
        "H2_ACTOR": "outer",
    }
    terminal = Terminal([sys.executable, "-m", "proctor", "sandbox", "shell", "b1"], environ)
    terminal.read_until("(b1) mine> " if shell in START_UP else "(b1) ")
    terminal.type('echo "dir=$H2_DIR config=$CLAUDE_CONFIG_DIR actor=$H2_ACTOR mark=$MARK zdotdir=$ZDOTDIR."')
    mark = "from-start-up" if shell in START_UP else ""
    config = box.home / "claude-config" / "default"
    terminal.read_until(f"dir={box.home} config={config} actor= mark={mark} zdotdir=.")
    terminal.type("exit 7")
    assert terminal.end() == 7


def test_zsh_is_led_to_the_users_own_directory_and_back() -> None:
    arguments, variables = shell_command("/bin/zsh", {"PROCTOR_SANDBOX": "b1", "ZDOTDIR": "/dots", "HOME": "/home/me"})
    assert arguments == ["/bin/zsh"]
    assert variables["PROCTOR_ZDOTDIR"] == "/dots"
    assert {path.name for path in Path(variables["ZDOTDIR"]).iterdir()} == {".zshenv", ".zshrc"}


def test_an_unknown_shell_is_simply_started() -> None:
    arguments, variables = shell_command("/opt/nu", {"PROCTOR_SANDBOX": "b1"})
    assert arguments == ["/opt/nu"]
    assert variables["PS1"].startswith("(b1) ")


def test_without_a_shell_in_the_environment_the_users_login_shell_is_taken() -> None:
    assert user_shell({"SHELL": "/bin/zsh"}) == "/bin/zsh"
    assert user_shell({}).startswith("/")
