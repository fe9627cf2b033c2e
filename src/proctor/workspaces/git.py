"""Every git that Proctor starts: the system's program, our configuration, an environment built from nothing.

The repository is always named (``GIT_DIR``), never searched for, so that an enclosing work tree has no say.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from proctor.core.errors import InfrastructureError, RetryableError
from proctor.core.record import Record

SHA1_LENGTH: Final = 40
_CONFIG: Final = Path(__file__).with_name("gitconfig")
_NETWORK_VARIABLES: Final = (
    *("ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"),
    *("CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "SSL_CERT_DIR", "SSL_CERT_FILE", "SSH_AUTH_SOCK"),
)
# Bytes on disk are the bytes in git, whatever a tree's own attributes say. What stands here outranks them.
VERBATIM_ATTRIBUTES: Final = "* -text -ident !filter !working-tree-encoding !eol !merge !whitespace\n"


class GitResult(Record):
    """How a git command ended."""

    code: int
    output: bytes
    errors: str

    @property
    def error_message(self) -> str:
        """Git's error message, on one line."""
        lines = [line for line in self.errors.splitlines() if line.startswith(("error:", "fatal:"))]
        return "; ".join(lines[:3]) or self.errors.strip()[-300:] or f"exit code {self.code}"


class GitFailed(InfrastructureError):
    """A git command that had to work did not."""


def run_git(
    arguments: Sequence[str],
    *,
    git_dir: Path,
    work_tree: Path | None = None,
    stdin: bytes | IO[bytes] = b"",
    expected: Container[int] = (0,),
    timeout: float = 300.0,
    network: bool = False,
    pass_fds: Sequence[int] = (),
) -> GitResult:
    """Run one git command to its end.

    Args:
        arguments: the sub-command and what follows it.
        git_dir: the repository.
        work_tree: its files, where the command starts; None for a command that needs none.
        stdin: what it reads, or the open file with it.
        expected: exit codes that the caller deals with.
        timeout: seconds; what has not ended then is killed with all it started.
        network: it may need the user's proxy and certificates.
        pass_fds: descriptors that it inherits.

    Raises:
        GitFailed: any other exit code.
        RetryableError: it took too long.
        InfrastructureError: there is no git.
    """
    given = stdin if isinstance(stdin, bytes) else None
    source = subprocess.PIPE if isinstance(stdin, bytes) else stdin
    process = _start(arguments, git_dir, work_tree=work_tree, stdin=source, network=network, pass_fds=pass_fds)
    with process:
        try:
            output, errors = process.communicate(given, timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise _timeout_error(arguments, git_dir, timeout) from None
        except BaseException:
            _kill(process)
            raise
    done = GitResult(code=process.returncode, output=output, errors=errors.decode("utf-8", "replace"))
    if done.code not in expected:
        raise GitFailed(f"git {arguments[0]} failed: {done.error_message}", where=git_dir)
    return done


@contextmanager
def stream_git(
    arguments: Sequence[str], *, git_dir: Path, stdin: bytes = b"", timeout: float = 3600.0
) -> Iterator[IO[bytes]]:
    """The output of a git command, to be read as it comes. A reader that stops early ends the command."""
    with tempfile.TemporaryFile() as questions, tempfile.TemporaryFile() as errors:
        questions.write(stdin)
        questions.seek(0)
        process = _start(arguments, git_dir, stdin=questions, stderr=errors)
        started = time.monotonic()
        clock = threading.Timer(timeout, _kill, [process])
        clock.start()
        assert process.stdout is not None  # noqa: S101 - for the type checker: _start always makes the pipe
        with process:
            try:
                yield process.stdout
                unread = process.stdout.read(1)
            except BaseException:
                _kill(process)
                raise
            finally:
                clock.cancel()
            if unread:
                _kill(process)
                return
        if process.returncode == -signal.SIGKILL and time.monotonic() - started >= timeout:
            raise _timeout_error(arguments, git_dir, timeout)
        if process.returncode != 0:
            errors.seek(0)
            done = GitResult(code=process.returncode, output=b"", errors=errors.read().decode("utf-8", "replace"))
            raise GitFailed(f"git {arguments[0]} failed: {done.error_message}", where=git_dir)


def make_repository(git_dir: Path, *, commit: str = "", objects: Path | None = None, bare: bool = True) -> None:
    """An empty repository, made without starting a program.

    Args:
        git_dir: where; it must not exist yet.
        commit: any commit that will be used in it; decides between SHA-1 and SHA-256.
        objects: an object directory of somebody else to read from as well.
        bare: without a work tree of its own.
    """
    for name in ("info", "objects", "refs"):
        (git_dir / name).mkdir(parents=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    (git_dir / "info" / "attributes").write_text(VERBATIM_ATTRIBUTES)
    sha256 = len(commit) > SHA1_LENGTH
    (git_dir / "config").write_text(
        f"[core]\n\trepositoryformatversion = {int(sha256)}\n\tfilemode = true\n\tbare = {str(bare).lower()}\n"
        + ("[extensions]\n\tobjectFormat = sha256\n" if sha256 else "")
    )
    if objects is not None:
        (git_dir / "objects" / "info").mkdir()
        (git_dir / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects.resolve()) + b"\n")


def quote_path(path: bytes) -> bytes:
    """A path as git's own streams write it, whatever bytes it has."""
    inner = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + inner + b'"'


def _start(
    arguments: Sequence[str],
    git_dir: Path,
    *,
    work_tree: Path | None = None,
    stdin: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
    network: bool = False,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    program = shutil.which("git")
    if program is None:
        raise InfrastructureError("git is not installed, or not on PATH", fix="install git 2.34 or newer")
    variables = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(_CONFIG),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_DIR": str(git_dir),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_TERMINAL_PROMPT": "0",
    }
    if work_tree is not None:
        variables["GIT_WORK_TREE"] = str(work_tree)
    if network:
        variables |= {name: os.environ[name] for name in _NETWORK_VARIABLES if name in os.environ}
    return subprocess.Popen(
        [program, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=work_tree or git_dir,
        env=variables,
        pass_fds=pass_fds,
        start_new_session=True,  # so that a kill reaches what git starts
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _timeout_error(arguments: Sequence[str], git_dir: Path, timeout: float) -> RetryableError:
    return RetryableError(f"git {arguments[0]} did not end within {timeout:g} s", where=git_dir)
