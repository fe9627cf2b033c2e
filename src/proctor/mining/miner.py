"""Mining a suite: candidates in order, several at once, each stored when it is done, until there are tasks enough."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import LimitReached, RetryableError, UsageError
from proctor.core.files import cache_root, file_lock, write_atomic
from proctor.core.record import to_json
from proctor.core.trees import disk_bytes
from proctor.environments.machine_check import check_machine
from proctor.mining.candidates import Candidate, SkippedChange, Stage, judge_change
from proctor.mining.history import HistoryChange, HistoryRange, RepositoryHistory
from proctor.mining.issue_writer import IssueWriter
from proctor.mining.issues import FindIssue
from proctor.mining.journal import STATE_FOLDER, MineRequest, MiningJournal, settings_digest
from proctor.mining.report import REPORT_FILE, MinedCommit, MiningReport
from proctor.mining.settings import MineOptions, MineSettings
from proctor.mining.task_files import ENVIRONMENTS, INSTANCES, write_suite
from proctor.mining.task_maker import CandidateResult, TaskMaker
from proctor.workspaces.git import GitFailed

_RETRIES: Final = 3
_TRIED_FOR_SETUP: Final = 3
_RETRY_SECONDS: Final = 5.0
# What stays in the cache of installed environments when the disk budget is spent: those in use.
_EVICTED_SHARE: Final = 0.5


@dataclass(slots=True)
class MineSession:
    """What one session of mining is given.

    Attributes:
        out: the suite's folder.
        jobs: candidates at the same time.
        disk: bytes that the suite and the environments installed for it may take; None: no limit.
        update: keep the tasks that are there, and try what is new since.
        on_result: called with each candidate that is done.
        on_start: called with each that is started.
        results: what became of the candidates that were tried, by commit.
    """

    history: RepositoryHistory
    provider: EnvironmentProvider
    out: Path
    options: MineOptions
    settings: MineSettings
    repository: str
    jobs: int = 1
    disk: int | None = None
    update: bool = False
    look_up: FindIssue | None = None
    writer: IssueWriter | None = None
    on_start: Callable[[Candidate], None] = lambda _: None
    on_result: Callable[[Candidate, CandidateResult], None] = lambda _, __: None
    results: dict[str, CandidateResult] = field(default_factory=dict)


def list_candidates(
    history: RepositoryHistory, options: MineOptions, settings: MineSettings
) -> tuple[list[Candidate], list[tuple[HistoryChange, SkippedChange]]]:
    """The changes of the range that are worth trying, and the others with their reasons; both newest first."""
    candidates, others = [], []
    wanted = HistoryRange(since=options.since, until=options.until)
    for change in history.changes(wanted):
        if options.commits and not change.commit.startswith(options.commits):
            continue
        try:
            paths = history.changed_paths(change) if change.parent else ()
        except GitFailed as error:
            others.append((change, SkippedChange(code="unreadable", reason=f"git cannot read it: {error.what}")))
            continue
        judged = judge_change(change, paths, options, settings)
        if isinstance(judged, Candidate):
            candidates.append(judged)
        else:
            others.append((change, judged))
    seen = [change.commit for change in (*(one.change for one in candidates), *(change for change, _ in others))]
    for start in options.commits:
        named = sum(commit.startswith(start) for commit in seen)
        if not named:
            raise UsageError(
                f"there is no commit {start} on the main line in this range",
                fix="merge commits stand for what they merge; --branch names another line",
            )
        if named > 1:
            raise UsageError(f"the ids of {named} commits begin with {start!r}", fix="give more of the id")
    return candidates, others


async def setup_failures(
    history: RepositoryHistory,
    provider: EnvironmentProvider,
    scratch: Path,
    options: MineOptions,
    settings: MineSettings,
) -> tuple[str, ...]:
    """Why the first candidates cannot be set up, or their tests cannot be run; nothing when one of them can."""
    candidates, _ = await asyncio.to_thread(list_candidates, history, options, settings)
    maker = TaskMaker(history, provider, scratch, msgspec.structs.replace(options, runs=1, controls=0), settings)
    failures = []
    for candidate in candidates[:_TRIED_FOR_SETUP]:
        result = await _make(maker, candidate)
        if result.stage is not Stage.SETUP and result.code != "tests-do-not-run":
            return ()
        failures.append(f"{candidate.change.commit[:10]}: {result.reason}")
    return tuple(failures)


async def mine(session: MineSession) -> MiningReport:
    """Make the suite, or continue with it.

    Raises:
        UsageError: another suite is there, or this one is complete, or none is and it is to be updated; no commit is in
            the range.
        LimitReached: the disk budget, or that of the model, is spent.
        RetryableError: a package index, the forge or the model cannot be reached.
        InfrastructureError: there are no environments here, or no space is left on a disk.
    """
    session.out = session.out.absolute()
    journal = MiningJournal(session.out)
    if journal.request() is None:
        if session.out.exists() and not _is_free(session.out):
            raise UsageError("something else is there already", where=session.out, fix="name a new folder with --out")
        if session.update:
            raise UsageError("no suite to update is there", where=session.out, fix="leave --update out, or see --out")
    candidates, others = await asyncio.to_thread(list_candidates, session.history, session.options, session.settings)
    if not candidates and not others:
        raise UsageError("no commit of the main line is in this range", fix="see --since, --until and --branch")
    try:
        (session.out / STATE_FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"no suite can be made there: {error.strerror}", where=session.out) from error
    with file_lock(session.out / STATE_FOLDER / "lock", what=f"the suite {session.out}", wait_seconds=0):
        request = MineRequest(
            repository=session.repository,
            name=session.history.name,
            options=session.options,
            runner=session.provider.name,
            settings=settings_digest(session.settings),
        )
        journal.begin(request, session.history, update=session.update)
        session.results = journal.results()
        maker = TaskMaker(
            session.history,
            session.provider,
            session.out / STATE_FOLDER / "drafts",
            session.options,
            session.settings,
            look_up=session.look_up,
            writer=session.writer,
        )
        await _try_candidates(session, journal, maker, candidates)
        report = await asyncio.to_thread(_write_suite, session, candidates, others)
        journal.write_request(msgspec.structs.replace(request, head=session.history.head, done=True))
        await asyncio.to_thread(shutil.rmtree, session.out / STATE_FOLDER / "drafts", ignore_errors=True)
    return report


def _is_free(folder: Path) -> bool:
    """Whether nothing is in a folder but what an earlier session of mining may have begun with."""
    return folder.is_dir() and all(one.name == STATE_FOLDER for one in folder.iterdir())


async def _try_candidates(
    session: MineSession, journal: MiningJournal, maker: TaskMaker, candidates: list[Candidate]
) -> None:
    """Try candidates in their order until there are tasks enough; all before the last one tried have a result."""
    limit = None if session.update else session.options.limit
    if session.update:
        # What is older than all that was tried before was beyond the limit then.
        tried = [place for place, one in enumerate(candidates) if one.change.commit in session.results]
        candidates = candidates[: tried[-1] + 1] if tried else candidates
    waiting = enumerate(candidates)

    def is_enough(place: int) -> bool:
        """Whether the candidates before this place are known to be enough; those after it do not count."""
        before = (session.results.get(one.change.commit) for one in candidates[:place])
        return limit is not None and sum(one is not None and one.stage is Stage.TASK for one in before) >= limit

    async def work() -> None:
        for place, candidate in waiting:
            if is_enough(place):
                return
            if candidate.change.commit not in session.results:
                await _try_candidate(session, journal, maker, candidate)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(session.jobs):
                group.create_task(work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _try_candidate(session: MineSession, journal: MiningJournal, maker: TaskMaker, candidate: Candidate) -> None:
    await _check_machine(session)
    session.on_start(candidate)
    result = await _make(maker, candidate)
    if result.stage is not Stage.TASK:
        await _check_machine(session)
    else:
        await asyncio.to_thread(_keep, session.out, maker.draft_folder(candidate), result)
    journal.add(result)
    session.results[candidate.change.commit] = result
    session.on_result(candidate, result)
    if session.disk is not None:
        await asyncio.to_thread(_keep_to_budget, session.out, session.disk)


async def _check_machine(session: MineSession) -> None:
    """See that nothing fails for want of what has nothing to do with the change, such as space."""
    await check_machine(session.provider, [session.out, cache_root().absolute(), Path(tempfile.gettempdir())])


async def _make(maker: TaskMaker, candidate: Candidate) -> CandidateResult:
    for number in range(_RETRIES):
        try:
            return await maker.make(candidate)
        except RetryableError:
            if number == _RETRIES - 1:
                raise
            await asyncio.sleep(_RETRY_SECONDS * (number + 1))
    raise AssertionError  # the loop returns or raises


def _keep(out: Path, draft: Path, result: CandidateResult) -> None:
    """Move a finished task, and its environment, into the suite."""
    assert result.task_id is not None  # noqa: S101 - a task has an id
    environment = out / result.environment
    if not environment.is_dir():
        environment.parent.mkdir(parents=True, exist_ok=True)
        (draft / result.environment).rename(environment)
    target = out / INSTANCES / result.task_id
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    (draft / INSTANCES / result.task_id).rename(target)
    shutil.rmtree(draft, ignore_errors=True)


def _keep_to_budget(out: Path, budget: int) -> None:
    """Remove installed environments, the oldest first, while all of it takes more than the budget.

    Raises:
        LimitReached: the suite alone takes more.
    """
    root = cache_root().absolute() / "suite_environments"
    own = disk_bytes(out)
    folders = [folder for folder in root.iterdir() if (folder / "built").is_file()] if root.is_dir() else []
    sizes = {folder: disk_bytes(folder) for folder in folders}
    total = own + sum(sizes.values())
    if own > budget:
        raise LimitReached("disk", value=own, limit=budget, where=out)
    # The newest half is likely to be needed by the next candidates.
    oldest = sorted(folders, key=lambda folder: (folder / "built").stat().st_mtime)
    for folder in oldest[: int(len(oldest) * _EVICTED_SHARE)]:
        if total <= budget:
            return
        (folder / "built").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        total -= sizes[folder]


def _write_suite(
    session: MineSession, candidates: list[Candidate], others: list[tuple[HistoryChange, SkippedChange]]
) -> MiningReport:
    """`suite.json` and `mining.json`, over the first tasks of the order; what is beyond the limit is removed."""
    limit = None if session.update else session.options.limit
    kept: list[str] = []
    listed: list[MinedCommit] = []
    results = session.results
    unseen = 0
    last = None
    for candidate in candidates:
        result = results.get(candidate.change.commit)
        if result is None or (limit is not None and len(kept) >= limit):
            unseen += 1
            continue
        last = candidate.change
        if result.stage is Stage.TASK and result.task_id is not None:
            kept.append(result.task_id)
        listed.append(mined_commit(candidate.change, result))
    # Commits beyond the last one that was tried were not looked at, whatever they are.
    order = {change.commit: place for place, change in enumerate(session.history.changes(HistoryRange()))}
    end = order[last.commit] if last is not None and unseen else len(order)
    seen = [pair for pair in others if order[pair[0].commit] <= end]
    unseen += len(others) - len(seen)
    listed += [passed_over_commit(change, passed) for change, passed in seen]
    listed.sort(key=lambda one: order[one.commit])
    report = MiningReport(
        suite=session.history.name,
        repository=session.history.address,
        head=session.history.head,
        commits=tuple(listed),
        unseen=unseen,
    )
    _remove_others(session.out, set(kept))
    write_atomic(session.out / REPORT_FILE, to_json(report))
    if kept:
        write_suite(session.out, session.history.name, kept, f"Mined from the history of {session.history.address}.")
    return report


def mined_commit(change: HistoryChange, result: CandidateResult) -> MinedCommit:
    """A candidate in the report."""
    return MinedCommit(
        commit=change.commit,
        day=change.day,
        subject=change.subject,
        stage=result.stage,
        code=result.code,
        reason=result.reason,
        task_id=result.task_id,
    )


def passed_over_commit(change: HistoryChange, passed: SkippedChange) -> MinedCommit:
    """A commit in the report that is no candidate."""
    result = CandidateResult(commit=change.commit, stage=Stage.COMMIT, code=passed.code, reason=passed.reason)
    return mined_commit(change, result)


def _remove_others(out: Path, kept: set[str]) -> None:
    """Remove tasks beyond the limit, and environments that no task uses."""
    from proctor.benchmarks.suites.load import INSTANCE_FILE

    used = set()
    for folder in sorted((out / INSTANCES).glob("*")):
        if folder.name not in kept:
            shutil.rmtree(folder)
            continue
        file = msgspec.json.decode((folder / INSTANCE_FILE).read_bytes())
        used.add(file.get("environment_path"))
    for folder in sorted((out / ENVIRONMENTS).glob("*")):
        if f"{ENVIRONMENTS}/{folder.name}" not in used:
            shutil.rmtree(folder)
