"""What one mining has done so far: a line for each candidate, so that a session that was killed is resumed."""

import hashlib
import os
from pathlib import Path
from typing import Final, Literal

import msgspec

from proctor.core.errors import InvalidData, UsageError
from proctor.core.files import append_whole
from proctor.core.record import Record, from_json, read_record, to_json
from proctor.mining.history import RepositoryHistory
from proctor.mining.settings import MineOptions, MineSettings
from proctor.mining.task_maker import CandidateResult

# Beside the suite, and not part of it.
STATE_FOLDER: Final = ".mining"
_REQUEST: Final = "request.json"
_JOURNAL: Final = "journal.jsonl"


class MineRequest(Record):
    """What a suite was mined with; `settings` is a digest of the repository's own file.

    Attributes:
        repository: as the user gave it: an address or a path.
        head: the commit at which the last complete session saw the main line end.
    """

    repository: str
    name: str
    options: MineOptions
    runner: str
    settings: str
    head: str = ""
    done: bool = False
    schema_version: Literal["proctor.mine_request@1"] = "proctor.mine_request@1"


class MiningJournal:
    """The state of one mining, in a folder beside its suite."""

    def __init__(self, out: Path) -> None:
        self.folder = out / STATE_FOLDER
        self._file = self.folder / _JOURNAL

    def request(self) -> MineRequest | None:
        """What the suite was mined with; None when nothing was mined here."""
        file = self.folder / _REQUEST
        return read_record(file, MineRequest) if file.is_file() else None

    def write_request(self, request: MineRequest) -> None:
        """Store what the suite is mined with."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / _REQUEST
        half = file.with_name(f".{file.name}.tmp")
        half.write_bytes(to_json(request))
        half.replace(file)

    def results(self) -> dict[str, CandidateResult]:
        """What became of each candidate so far, by commit; a line that was cut off is not there."""
        if not self._file.is_file():
            return {}
        found = {}
        for line in self._file.read_bytes().splitlines():
            try:
                result = from_json(line, CandidateResult)
            except InvalidData:
                continue
            found[result.commit] = result
        return found

    def add(self, result: CandidateResult) -> None:
        """Store what became of a candidate."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            append_whole(descriptor, [msgspec.json.encode(result) + b"\n"])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def begin(self, request: MineRequest, history: RepositoryHistory, *, update: bool) -> None:
        """Store what the suite is mined with, where it goes with what is there.

        Raises:
            UsageError: it does not, or the suite is complete.
        """
        known = self.request()
        if known is not None and _is_other(known, request) and not self._has_tasks():
            # Nothing is there that other options would not fit to, as after a change of the settings.
            self._file.unlink(missing_ok=True)
            known = None
        if known is not None:
            self._check(known, request, history, update=update)
        self.write_request(request)

    def _check(self, known: MineRequest, request: MineRequest, history: RepositoryHistory, *, update: bool) -> None:
        out = self.folder.parent
        limit, known_limit = request.options.limit, known.options.limit
        more = known_limit is not None and (limit is None or limit > known_limit)
        # What was interrupted may end with what it has.
        if _is_other(known, request) or (limit != known_limit and not more and known.done):
            raise UsageError(
                "a suite was mined there with other options, or from another repository",
                where=out,
                fix="give the same ones again, or another --out",
            )
        if known.done and not update and not more:
            fix = "--update adds what is new since, a higher --limit what is older"
            raise UsageError("this suite is complete", where=out, fix=fix)
        if known.done and known.head and not history.is_ancestor(known.head):
            raise UsageError(
                "the history was rewritten since this suite was mined", where=out, fix="mine it anew elsewhere"
            )

    def _has_tasks(self) -> bool:
        return any(result.task_id is not None for result in self.results().values())


def _is_other(known: MineRequest, request: MineRequest) -> bool:
    """Whether more differs than the limit."""
    options = msgspec.structs.replace(known.options, limit=request.options.limit)
    return msgspec.structs.replace(known, head="", done=False, options=options) != request


def settings_digest(settings: MineSettings) -> str:
    """Identifies the content of a `proctor-mine.toml`."""
    return hashlib.sha256(msgspec.json.encode(settings)).hexdigest()[:16]
