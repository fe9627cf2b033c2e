"""An environment after the agent has finished: its shell is restored, leftover processes are killed, findings named."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from proctor.core.environment import Checkpoint, Environment
from proctor.core.record import Record
from proctor.core.verdict import Finding
from proctor.grading.finding_codes import EnvironmentCode
from proctor.grading.state.archive import ArchiveOrigin, compare_with_archive
from proctor.grading.state.changes import files_changed_after_deadline
from proctor.grading.state.grader_settings import guarded_programs, set_aside_settings
from proctor.grading.state.inspection import Inspection
from proctor.grading.state.inspection import inspect as inspect_environment
from proctor.grading.state.libraries import restore_libraries
from proctor.grading.state.processes import (
    LeftoverPolicy,
    ProcessInfo,
    find_leftovers,
    kill_processes,
    service_pids,
)
from proctor.grading.state.programs import (
    INTERPRETERS,
    NATIVE_PROGRAMS,
    TRUSTED_TOOLS,
    InstalledProgram,
    PackageOrigin,
    ProgramTable,
    file_kinds,
    package_origins,
)
from proctor.grading.state.service_startup_wait import ServiceStartupWait, ServiceWait, wait_for_services
from proctor.grading.state.snapshot import (
    PRELOAD,
    EnvironmentSnapshot,
    inspect_shell,
    load_snapshot,
    program_copies_dir,
    read_small_file,
)
from proctor.grading.state.tool_kit import make_tool_kit

_MAX_ROUNDS: Final = 4
_MAX_SHOWN: Final = 120
_MAX_FINDINGS: Final = 20
SCANNED_DIRECTORIES: Final = "/etc /home /opt /root /srv /tmp /usr/local /var/tmp /var/www".split()  # noqa: SIM905 - in an environment


class GraderMarkers(Record):
    """Words that only a grader, or a fake of one, has reason to write."""

    strings: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


class QuarantinedEnvironment(Record):
    """An environment made ready for its grader.

    Attributes:
        grader_dir: inside the environment, for the grader's own files.
        search_path: where the grader's programs are found: trusted copies first.
        findings: what is suspicious.
        fake_programs: the programs that the grader calls and that are not what their names say.
        killed: the commands of the processes that were killed; `services`: of those that were taken for services.
        waited_for: the commands of those that served nothing at first, and were given time.
        late_files: what can be work on the task and was changed after the time was up.
    """

    grader_dir: str
    search_path: str
    findings: tuple[Finding, ...] = ()
    fake_programs: tuple[str, ...] = ()
    killed: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    waited_for: tuple[str, ...] = ()
    late_files: tuple[str, ...] = ()


async def quarantine(
    environment: Environment,
    folder: Path,
    *,
    names: Sequence[str],
    policy: LeftoverPolicy,
    markers: GraderMarkers = GraderMarkers(),  # noqa: B008 - a frozen record
    is_copy: bool = False,
    is_known: bool = False,
    guard_settings: bool = False,
    task_text: str = "",
    checkpoint: Checkpoint | None = None,
    ask_archive: bool = False,
    inspect: bool = True,
    grace: ServiceStartupWait | None = None,
) -> QuarantinedEnvironment:
    """Make an environment ready for a grader with these words, those of `take_snapshot`, in the same `folder`.

    Args:
        environment: as the agent has left it.
        folder: with the snapshot.
        names: the words of the grader.
        policy: what becomes of processes.
        markers: to look for.
        is_copy: a copy, in which nothing of the agent's runs.
        is_known: it has the files of another copy, on which nothing was to be set aside.
        guard_settings: set aside what the agent has changed of the settings of the grader's programs, and of what its
            Python runs on; the snapshot has them.
        task_text: what the agent was told; settings that it names stay.
        checkpoint: knows the image that the environment was made from.
        ask_archive: compare programs of packages that were installed with those packages in their archive.
        inspect: look for programs that are not what they were.
        grace: the time that processes have to become services, where the policy kills those that are none.

    Raises:
        InvalidData: there is no snapshot of the environment.
        InfrastructureError: the environment cannot be inspected.
    """
    snapshot = load_snapshot(folder)
    inside = f"/run/proctor-{secrets.token_hex(8)}"
    path = f"{inside}/bin:{snapshot.path}"
    machine = _Machine(environment, snapshot, folder, inside, path)
    findings = [] if is_known else await machine.clear_preload()
    await environment.put(make_tool_kit(snapshot, folder), inside)
    environment.start_commands_with(f"{inside}/shell")
    if is_known:
        return QuarantinedEnvironment(grader_dir=inside, search_path=path)
    # The settings of programs are put back before it is looked which programs there are.
    at_once = inspect and not guard_settings
    ask = partial(machine.inspect, names if at_once else (), markers if at_once else GraderMarkers())
    if is_copy:
        processes, seen = _ProcessOutcome(), await ask()
    else:
        processes, seen = await _end_processes(machine, ask, policy, grace)
    findings += machine.shell_findings
    findings += processes.findings
    if guard_settings:
        findings += await _restore_programs(environment, snapshot, folder, path)
        findings += await restore_libraries(environment, snapshot.libraries, checkpoint, path=path)
        findings += await set_aside_settings(
            environment, snapshot.settings, guarded_programs(names), path=path, needed=task_text
        )
    if not inspect:
        return QuarantinedEnvironment(grader_dir=inside, search_path=path, findings=tuple(dict.fromkeys(findings)))
    if not at_once:
        seen = await machine.inspect(names, markers)
    changed = _changed_programs(snapshot, seen.programs)
    origins = await package_origins(environment, [one.real_path for one in changed], path=path)
    if ask_archive and checkpoint is not None:
        origins, unverified = await _ask_archive(environment, checkpoint, changed, origins, path)
        findings += unverified
    program_findings, fakes = _judge_programs(snapshot, changed, origins)
    findings += program_findings
    findings += [
        _finding(EnvironmentCode.GRADER_MARKERS, file, EnvironmentCode.GRADER_MARKERS.meaning)
        for file in seen.marked_files[:_MAX_FINDINGS]
    ]
    return QuarantinedEnvironment(
        grader_dir=inside,
        search_path=path,
        findings=tuple(dict.fromkeys(findings)),
        fake_programs=fakes,
        killed=processes.killed,
        services=processes.services,
        waited_for=processes.waited_for,
        late_files=processes.late_files,
    )


async def _ask_archive(
    environment: Environment,
    checkpoint: Checkpoint,
    changed: Sequence[InstalledProgram],
    origins: Mapping[str, PackageOrigin],
    path: str,
) -> tuple[dict[str, PackageOrigin], list[Finding]]:
    """What the archive makes of the programs that the machine's own database vouches for."""
    claimed = [one for one in changed if origins.get(one.real_path) == "packaged" and one.name not in TRUSTED_TOOLS]
    if not claimed:
        return dict(origins), []
    answers = await compare_with_archive(environment, checkpoint, claimed, path=path)
    known: dict[ArchiveOrigin, PackageOrigin] = {"differs": "changed", "absent": "unknown"}
    code = EnvironmentCode.UNVERIFIED_PROGRAM
    unverified = [
        _finding(code, one.path, f"{code.meaning}: {one.name}")
        for one in claimed
        if answers.get(one.real_path, "unreachable") == "unreachable"
    ]
    return {**origins, **{file: known[answer] for file, answer in answers.items() if answer in known}}, unverified


class _ProcessOutcome(Record):
    findings: tuple[Finding, ...] = ()
    killed: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    waited_for: tuple[str, ...] = ()
    late_files: tuple[str, ...] = ()


class _Machine:
    """An environment with the trusted tools in it."""

    def __init__(
        self, environment: Environment, snapshot: EnvironmentSnapshot, folder: Path, inside: str, path: str
    ) -> None:
        self.environment = environment
        self.snapshot = snapshot
        self.path = path
        self.shell_findings: list[Finding] = []
        self._folder = folder
        self._inside = inside

    async def clear_preload(self) -> list[Finding]:
        """Have no library get into every program."""
        return await _clear_preload(self.environment, self.snapshot)

    async def inspect(self, names: Sequence[str], markers: GraderMarkers) -> Inspection:
        """Look at it; where a shell is not as it was, it is put back first."""
        ask = partial(
            inspect_environment,
            self.environment,
            self._inside,
            path=self.path,
            search_path=self.snapshot.path,
            names=names,
            markers=markers.strings,
            marker_dirs=tuple(dict.fromkeys((*SCANNED_DIRECTORIES, *markers.directories))),
            since=self.snapshot.taken_at,
        )
        seen = await ask()
        before = {shell.chain[0]: (shell.chain, shell.sha256) for shell in self.snapshot.shells}
        if all(before.get(one.chain[0]) in {None, (one.chain, one.sha256)} for one in seen.shells):
            return seen
        found = await _restore_shells(self.environment, self.snapshot, self._folder)
        self.shell_findings += [finding for finding in found if finding not in self.shell_findings]
        return await ask()


async def _end_processes(
    machine: _Machine,
    ask: Callable[[], Awaitable[Inspection]],
    policy: LeftoverPolicy,
    grace: ServiceStartupWait | None,
) -> tuple[_ProcessOutcome, Inspection]:
    environment, snapshot, path = machine.environment, machine.snapshot, machine.path
    wait = ServiceWait()
    late: tuple[str, ...] = ()
    if grace is not None and policy is LeftoverPolicy.SERVICES:
        wait = await wait_for_services(environment, snapshot.processes, path=path, seconds=grace.seconds)
    own, rest, kept, seen = await _kill_leftovers(machine, ask, policy)
    own = [*wait.killed, *own]
    if grace is not None:
        late = await files_changed_after_deadline(environment, grace.since, path=path, named=grace.named)
    findings = [_process_finding(EnvironmentCode.AGENT_RUNNING, process, "was still running") for process in own]
    findings += [_process_finding(EnvironmentCode.LEFT_RUNNING, process, "was killed") for process in rest]
    if kept.init_start_time != snapshot.init_start_time:
        findings.append(_finding(EnvironmentCode.RESTARTED, "", EnvironmentCode.RESTARTED.meaning))
    if policy is LeftoverPolicy.KEEP:
        findings += [_process_finding(EnvironmentCode.LEFT_RUNNING, process, "still runs") for process in kept.others]
    outcome = _ProcessOutcome(
        findings=tuple(findings),
        killed=tuple(process.command[:_MAX_SHOWN] for process in (*own, *rest)),
        services=tuple(process.command[:_MAX_SHOWN] for process in kept.services),
        waited_for=tuple(process.command[:_MAX_SHOWN] for process in wait.waited_for),
        late_files=late,
    )
    return outcome, seen


async def _restore_programs(
    environment: Environment, snapshot: EnvironmentSnapshot, folder: Path, path: str
) -> list[Finding]:
    """Put interpreters of the image back where something else than a program stands in their place."""
    files = {
        program.real_path: program
        for program in snapshot.programs
        if program.name in snapshot.copies and INTERPRETERS.fullmatch(program.name)
    }
    kinds = await file_kinds(environment, list(files), path=path)
    findings = []
    for place, program in files.items():
        if kinds.get(place) == "binary":
            continue
        await environment.put(program_copies_dir(folder) / snapshot.copies[program.name], place, mode=0o755)
        code = EnvironmentCode.PROGRAM_REPLACED
        findings.append(_finding(code, place, f"{code.meaning}: {program.name}"))
    return findings


async def restore_shells(environment: Environment, folder: Path) -> list[Finding]:
    """Put the shells of an environment back as its snapshot in `folder` has them.

    Raises:
        InvalidData: there is no snapshot of the environment.
    """
    return await _restore_shells(environment, load_snapshot(folder), folder)


async def _restore_shells(environment: Environment, snapshot: EnvironmentSnapshot, folder: Path) -> list[Finding]:
    """The shells as they were, and no library that gets into every program. Runs nothing in the environment."""
    findings = []
    copies = program_copies_dir(folder)
    found = await asyncio.gather(*(inspect_shell(environment, shell.chain[0], copies) for shell in snapshot.shells))
    for shell, now in zip(snapshot.shells, found, strict=True):
        if now is not None and (now.chain, now.sha256) == (shell.chain, shell.sha256):
            continue
        content = (program_copies_dir(folder) / shell.copy).read_bytes()
        upgraded = (
            now is not None
            and now.chain == shell.chain
            and await _is_packaged(environment, now.chain[-1], folder, now.copy)
        )
        await environment.put(content, shell.chain[-1], mode=0o755)
        if now is None or now.chain != shell.chain:
            await environment.put(content, shell.chain[0], mode=0o755)
        if not upgraded:
            findings.append(
                _finding(EnvironmentCode.SHELL_REPLACED, shell.chain[0], EnvironmentCode.SHELL_REPLACED.meaning)
            )
    return [*findings, *await _clear_preload(environment, snapshot)]


async def _clear_preload(environment: Environment, snapshot: EnvironmentSnapshot) -> list[Finding]:
    preload = await read_small_file(environment, PRELOAD)
    if not preload or not preload.strip() or snapshot.preload:
        return []
    await environment.put(b"", PRELOAD)
    text = preload.decode("utf-8", "replace").strip()[:_MAX_SHOWN]
    return [_finding(EnvironmentCode.PRELOAD, PRELOAD, f"{EnvironmentCode.PRELOAD.meaning}: {text}")]


async def _is_packaged(environment: Environment, path: str, folder: Path, copy: str) -> bool:
    """Whether a shell is as its package has it: an upgrade installs another one."""
    name = path.rpartition("/")[2]
    listed = await read_small_file(environment, f"/var/lib/dpkg/info/{name}.md5sums")
    digest = hashlib.md5((program_copies_dir(folder) / copy).read_bytes(), usedforsecurity=False).hexdigest()
    return listed is not None and digest.encode() in listed


class _RemainingProcesses(Record):
    services: tuple[ProcessInfo, ...]
    others: tuple[ProcessInfo, ...]
    init_start_time: str


async def _kill_leftovers(
    machine: _Machine, ask: Callable[[], Awaitable[Inspection]], policy: LeftoverPolicy
) -> tuple[list[ProcessInfo], list[ProcessInfo], _RemainingProcesses, Inspection]:
    """Kill them until none is left: a process that is about to be killed may just have started another one."""
    own: list[ProcessInfo] = []
    rest: list[ProcessInfo] = []
    snapshot = machine.snapshot
    for _ in range(_MAX_ROUNDS):
        seen = await ask()
        listed = seen.processes
        agents, others = find_leftovers(listed, snapshot.processes, policy)
        if not agents and not others:
            break
        await kill_processes(machine.environment, (*agents, *others))
        # What was just killed could have undone it until now.
        machine.shell_findings += await machine.clear_preload()
        own += agents
        rest += others
    called = service_pids(listed)
    staying = [
        process for pid, process in sorted(listed.processes.items()) if pid > 1 and pid not in snapshot.processes
    ]
    kept = _RemainingProcesses(
        services=tuple(process for process in staying if process.pid in called),
        others=tuple(process for process in staying if process.pid not in called),
        init_start_time=listed.init_start_time,
    )
    return own, rest, kept, seen


def _changed_programs(snapshot: EnvironmentSnapshot, now: ProgramTable) -> list[InstalledProgram]:
    """The programs that are not what they were, or were not there."""
    before = {program.name: (program.real_path, program.sha256) for program in snapshot.programs}
    return [program for program in now.values() if before.get(program.name) != (program.real_path, program.sha256)]


def _judge_programs(
    snapshot: EnvironmentSnapshot, changed: Sequence[InstalledProgram], origins: Mapping[str, PackageOrigin]
) -> tuple[list[Finding], tuple[str, ...]]:
    """Which of the grader's programs are not what their names say: those that no package has brought or upgraded."""
    before = {program.name: program for program in snapshot.programs}
    findings, fakes = [], []
    for program in changed:
        name, old, owner = program.name, before.get(program.name), origins.get(program.real_path, "unknown")
        if owner == "packaged":
            continue
        where = (
            program.path if old is None or program.real_path == old.real_path else f"{program.path}, before {old.path}"
        )
        is_own = program.kind != "binary" and (old is None or old.kind == "binary")
        if name in snapshot.copies and name in TRUSTED_TOOLS:
            findings.append(
                _finding(EnvironmentCode.PROGRAM_REPLACED, where, f"{EnvironmentCode.PROGRAM_REPLACED.meaning}: {name}")
            )
        elif name in NATIVE_PROGRAMS and (owner == "changed" or is_own):
            why = "differs from its package" if owner == "changed" else "is a script of no package"
            findings.append(_finding(EnvironmentCode.FAKE_PROGRAM, where, f"{name} {why}"))
            fakes.append(name)
        elif old is not None:
            findings.append(
                _finding(EnvironmentCode.PROGRAM_CHANGED, where, f"{EnvironmentCode.PROGRAM_CHANGED.meaning}: {name}")
            )
        else:
            code = EnvironmentCode.OWN_PROGRAM
            findings.append(_finding(code, where, f"{code.meaning}: {name}"))
    return findings, tuple(fakes)


def _process_finding(code: EnvironmentCode, process: ProcessInfo, what: str) -> Finding:
    return _finding(code, process.exe, f"{process.command[:_MAX_SHOWN]} {what}")


def _finding(code: EnvironmentCode, path: str, detail: str) -> Finding:
    return Finding(code=code.value, path=path, detail=detail)
