"""The sandboxes under one root: made, listed, reset, stopped, destroyed."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from proctor.core.errors import ProctorError, RetryableError, UsageError
from proctor.core.trees import is_directory
from proctor.sandboxes.agent_sockets import STATUS, list_endpoints, send_request
from proctor.sandboxes.auth import AuthState, auth_state
from proctor.sandboxes.credentials import Credentials, link_credentials
from proctor.sandboxes.layout import check_name, check_sockets_fit, default_root, is_name
from proctor.sandboxes.preset import DEFAULT_PRESET, Preset, load_preset, user_presets
from proctor.sandboxes.processes import SandboxProcess
from proctor.sandboxes.sandbox import (
    PathKind,
    Sandbox,
    SandboxRow,
    build_sandbox,
    is_sandbox,
    path_kind,
    read_sandbox,
)
from proctor.sandboxes.staging import StagingArea, remove_socket_links
from proctor.sandboxes.stop import DEFAULT_TIMEOUTS, StopTimeouts, stop_everything
from proctor.sandboxes.trees import check_no_mounts

_MAX_READS: Final = 10

T = TypeVar("T")


class Sandboxes:
    """The sandboxes under one root.

    Every method first finishes what a killed command has left of the sandboxes it is about.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        presets: Path | None = None,
        report: Callable[[str], None] | None = None,
        wait_seconds: float = 60.0,
        timeouts: StopTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        """Nothing is read or made yet.

        Args:
            root: where the sandboxes are; see `default_root`.
            presets: where the user's own presets are; ``~/.h2/presets`` by default.
            report: called with a sentence about each wait or notable event.
            wait_seconds: how long to wait for another command on the same sandbox.
            timeouts: how long to wait for what runs in a sandbox to end.
        """
        self.root = Path(os.path.realpath(root or default_root()))
        self._presets = presets or user_presets()
        self._staging = StagingArea(self.root)
        self._report = report or _ignore_message
        self._wait_seconds = wait_seconds
        self._timeouts = timeouts

    def create(
        self, name: str, *, preset: str | Path = DEFAULT_PRESET, model: str | None = None, auth_from: Path | None = None
    ) -> Sandbox:
        """Make a new sandbox; it is whole when it appears.

        Args:
            name: what to call it.
            preset: a preset's name, or the path of its folder.
            model: the model for the preset's roles, instead of the preset's own.
            auth_from: a Claude Code configuration directory to copy credentials from; none by default.

        Raises:
            UsageError: the name is taken or no name; or preset, model or credentials cannot be used.
        """
        home = self._staging.home(check_name(name))
        chosen = load_preset(_preset_argument(preset), folder=self._presets)
        model = chosen.choose_model(model)
        credentials = Credentials(auth_from)
        check_sockets_fit(home)
        self._check_free(name)
        with self._lock(name):
            self._check_free(name)
            building = self._staging.building(name)
            build_sandbox(building, chosen, model, created=datetime.now(UTC))
            credentials.write(building, chosen.seed)
            self._staging.install(name)
        return read_sandbox(home)

    def get(self, name: str) -> Sandbox:
        """One sandbox.

        Raises:
            UsageError: there is no such sandbox.
        """
        with self._existing(name) as sandbox:
            return sandbox

    def list(self, *, environ: Mapping[str, str] = os.environ) -> tuple[SandboxRow, ...]:
        """All sandboxes, each as it is now. Waits for no lock, and a moment at most for agents that hang."""
        self.repair()
        names = sorted(self._names(), key=_natural_order)
        homes = [self._staging.home(name) for name in names]
        answering = send_request([endpoint for home in homes for endpoint in list_endpoints(home)], STATUS)
        agents = Counter(endpoint.home for endpoint in answering)
        now = datetime.now(UTC)

        def read(home: Path) -> tuple[Sandbox, AuthState]:
            return read_sandbox(home), auth_state(home, environ=environ, now=now)

        rows = (self._read_consistently(name, read) for name in names)
        return tuple(
            SandboxRow(
                name=home.name,
                preset=sandbox.preset,
                model=sandbox.model,
                auth=auth,
                agents=agents[home],
                created=sandbox.created,
                home=str(home),
            )
            for home, (sandbox, auth) in zip(homes, rows, strict=True)
        )

    def reset(self, name: str, *, preset: str | Path | None = None, model: str | None = None) -> Sandbox:
        """Stop all that runs in a sandbox, and make it again from its preset; only its credentials stay.

        Args:
            name: which.
            preset: another preset from now on.
            model: another model from now on; by default that of a new preset.

        Raises:
            UsageError: no such sandbox, or preset or model cannot be used; or we run in it ourselves.
            InfrastructureError: something in it would not stop; nothing was removed.
        """
        with self._existing(name) as old:
            chosen, chosen_model = self._choose_preset(old, preset, model)
            self._stop(old)
            building = self._staging.building(name)
            build_sandbox(building, chosen, chosen_model, created=old.created or datetime.now(UTC))
            link_credentials(old.home, building, chosen.seed)
            self._staging.replace(name)
        return read_sandbox(old.home)

    def stop(self, name: str) -> Sequence[SandboxProcess]:
        """Stop all that runs in a sandbox, and make sure; returns what was running.

        Raises:
            UsageError: no such sandbox, or we run in it ourselves.
            InfrastructureError: something in it would not stop.
        """
        with self._existing(name) as sandbox:
            return stop_everything(sandbox.home, timeouts=self._timeouts)

    def destroy(self, name: str) -> None:
        """Stop all that runs in a sandbox, and remove it, credentials and all.

        Raises:
            UsageError: no such sandbox, or we run in it ourselves.
            InfrastructureError: something in it would not stop; nothing was removed.
        """
        with self._existing(name) as sandbox:
            self._stop(sandbox)
            self._staging.remove(name)

    def check_create(
        self, names: Sequence[str], *, preset: str | Path, model: str | None, auth_from: Path | None
    ) -> None:
        """Raise what `create` would raise for any of these names, and make none."""
        for name in _distinct(names):
            check_sockets_fit(self._staging.home(check_name(name)))
        load_preset(_preset_argument(preset), folder=self._presets).choose_model(model)
        Credentials(auth_from)
        self.repair()
        for name in names:
            self._check_free(name)

    def check_reset(self, names: Sequence[str], *, preset: str | Path | None, model: str | None) -> None:
        """Raise what `reset` would raise for any of these names, and touch none."""
        self.check_destroy(names)
        for name in names:
            self._choose_preset(self._read_consistently(name, read_sandbox), preset, model)

    def check_destroy(self, names: Sequence[str]) -> None:
        """Raise what `destroy` would raise for any of these names, and touch none."""
        for name in _distinct(names):
            check_name(name)
        self.repair()
        for name in names:
            self._check_exists(name)

    def repair(self) -> None:
        """Finish what killed commands have left. What a living command works on is left to it."""
        for name in sorted(self._staging.unfinished()):
            try:
                with self._staging.lock(check_name(name), wait_seconds=0):
                    pass
            except RetryableError:
                continue
            except (ProctorError, OSError) as error:
                self._report(f"cannot finish what was left of sandbox {name}: {error}")

    @contextmanager
    def _existing(self, name: str) -> Iterator[Sandbox]:
        check_name(name)
        if name not in self._staging.unfinished():
            self._check_exists(name)
        with self._lock(name):
            self._check_exists(name)
            yield read_sandbox(self._staging.home(name))

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        with self._staging.lock(
            name,
            wait_seconds=self._wait_seconds,
            on_wait=lambda: self._report(f"waiting for another command on sandbox {name} to end"),
        ):
            yield

    def _check_free(self, name: str) -> None:
        match self._read_consistently(name, path_kind):
            case PathKind.NOTHING:
                return
            case PathKind.SANDBOX:
                raise UsageError(f"sandbox {name} already exists", fix="choose another name, or destroy it first")
            case PathKind.SYMLINK | PathKind.OTHER:
                home = self._staging.home(name)
                sentence = f"the name {name} is taken: this is something else"
                raise UsageError(sentence, where=home, fix="choose another name")

    def _check_exists(self, name: str) -> None:
        match self._read_consistently(name, path_kind):
            case PathKind.SANDBOX:
                return
            case PathKind.NOTHING:
                raise UsageError(f"there is no sandbox {name}", fix="`proctor sandbox list` shows those there are")
            case PathKind.SYMLINK | PathKind.OTHER as found:
                home = self._staging.home(name)
                raise UsageError(f"this is {found}, not a sandbox", where=home, fix="it was left alone")

    def _current_path(self, name: str) -> Path:
        """Where a sandbox is to be read: in the instant of being replaced, its new tree is not yet at its place."""
        home, ready = self._staging.home(name), self._staging.ready(name)
        return ready if not os.path.lexists(home) and is_directory(ready) else home

    def _read_consistently(self, name: str, read: Callable[[Path], T]) -> T:
        """Read something of a sandbox that another command may just be replacing, without waiting for it."""
        for _ in range(_MAX_READS):
            home = self._current_path(name)
            before = _identity(home)
            seen = read(home)
            # The same tree at the same place: while it was moved, nothing was found where it had been.
            if self._current_path(name) == home and _identity(home) == before:
                break
        return seen

    def _names(self) -> Sequence[str]:
        try:
            names = {path.name for path in self.root.iterdir()} | self._staging.unfinished()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UsageError(f"cannot be read: {error.strerror}", where=self.root) from error
        return [name for name in names if is_name(name) and self._read_consistently(name, is_sandbox)]

    def _choose_preset(self, old: Sandbox, preset: str | Path | None, model: str | None) -> tuple[Preset, str | None]:
        wanted = _preset_argument(preset) if preset is not None else old.preset_path or old.preset
        if wanted is None:
            raise UsageError("its sandbox.json is damaged", where=old.name, fix="give --preset")
        chosen = load_preset(wanted, folder=self._presets)
        same = (chosen.name, chosen.path) == (old.preset, old.preset_path)
        return chosen, chosen.choose_model(model or (old.model if same and chosen.model else None))

    def _stop(self, sandbox: Sandbox) -> None:
        stopped = stop_everything(sandbox.home, timeouts=self._timeouts)
        check_no_mounts(sandbox.home)
        temporaries = {process.variables.get("TMPDIR", "") for process in stopped} - {""}
        remove_socket_links(sandbox.home, frozenset(temporaries))


def _distinct(names: Sequence[str]) -> Sequence[str]:
    for name, times in Counter(names).items():
        if times > 1:
            raise UsageError(f"{name} is named twice")
    return names


def _natural_order(name: str) -> list[tuple[int, str]]:
    """So that bench-2 comes before bench-10."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name)]


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What tells a tree from another that came to its place, with its number used again: a move has a time."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _preset_argument(preset: str | Path) -> str:
    return str(preset.absolute()) if isinstance(preset, Path) else preset


def _ignore_message(_: str) -> None:
    pass
