"""Grading in a environment whose root the agent was."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from docker_image import IMAGE, need_docker
from environment_factory import sh
from paths import REPOSITORY
from proctor.core.environment import Environment, EnvironmentSpec, Mount
from proctor.core.errors import InvalidData
from proctor.environments.docker import DockerProvider
from proctor.grading.state import (
    EnvironmentCode,
    GraderMarkers,
    LeftoverPolicy,
    ProcessInfo,
    ProcessList,
    QuarantinedEnvironment,
    changed_since,
    data_files,
    find_leftovers,
    parse_process_list,
    processes_beside_main,
    quarantine,
    run_in_fresh_shell,
    run_observed,
    script_words,
    service_pids,
    started_since,
    take_snapshot,
)
from proctor.grading.state.changes import files_changed_after_deadline
from proctor.grading.state.processes import starting_processes
from waiting import PATIENCE, limits

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

COMMAND = 'curl -s http://localhost/ | grep -q "Hello" && echo "All is well" || echo "Nothing is well"'
WORDS = script_words(COMMAND)
SERVER = """
nohup python3 -m http.server 80 >/dev/null 2>&1 &
until bash -c 'echo >/dev/tcp/localhost/80' 2>/dev/null; do sleep 0.1; done
"""


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[Environment]:
    need_docker()
    provider = DockerProvider(image=IMAGE)
    try:
        async with await provider.start(EnvironmentSpec()) as made:
            await take_snapshot(made, WORDS, tmp_path / "grading")
            yield made
    finally:
        await provider.close()


async def settled(
    environment: Environment, tmp_path: Path, policy: LeftoverPolicy = LeftoverPolicy.KEEP
) -> QuarantinedEnvironment:
    words = GraderMarkers(strings=("All is well",))
    return await quarantine(environment, tmp_path / "grading", names=WORDS, policy=policy, markers=words)


def codes(made: QuarantinedEnvironment) -> dict[str, str]:
    return {finding.code: finding.path for finding in made.findings}


async def test_an_honest_environment_has_no_findings_and_keeps_its_services(
    environment: Environment, tmp_path: Path
) -> None:
    await sh(environment, f"echo Hello >index.html\n{SERVER}")
    made = await settled(environment, tmp_path, LeftoverPolicy.SERVICES)
    assert (made.findings, made.fake_programs, made.killed) == ((), (), ())
    assert made.services == ("python3 -m http.server 80",)
    page = "import urllib.request as r; print(r.urlopen('http://localhost/index.html').read().decode())"
    ran = await run_in_fresh_shell(environment, made, f'python3 -c "{page}"', timeout=PATIENCE)
    assert ran.stdout.strip() == "Hello"


async def test_grading_an_honest_environment_asks_the_engine_four_times(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    for name in ("exec", "put", "get"):
        method = getattr(type(environment), name)

        async def counted(self: Environment, *words: Any, name: str = name, method: Any = method, **more: Any) -> Any:
            asked.append(name)
            return await method(self, *words, **more)

        monkeypatch.setattr(type(environment), name, counted)
    made = await settled(environment, tmp_path)
    seen = await run_observed(environment, made, "echo out; echo err >&2; sleep 600 & exit 3", timeout=PATIENCE)
    assert asked == ["get", "put", "exec", "exec"]
    assert (seen.result.exit_code, seen.result.stdout, seen.result.stderr) == (3, "out\n", "err\n")
    (left,) = started_since(seen.before, seen.after)
    assert left.pid not in seen.before.processes


async def test_what_a_command_prints_is_kept_from_both_ends(environment: Environment, tmp_path: Path) -> None:
    made = await settled(environment, tmp_path)
    command = "i=0; while [ $i -lt 300000 ]; do echo $i; i=$((i+1)); done"
    seen = await run_observed(environment, made, command, timeout=PATIENCE)
    assert seen.result.stdout.startswith("0\n1\n2\n")
    assert seen.result.stdout.endswith("299998\n299999\n")
    assert "bytes left out" in seen.result.stdout
    assert len(seen.result.stdout) < 1_100_000
    cut = await run_observed(environment, made, "echo so far; kill -9 0", timeout=PATIENCE)
    assert (cut.result.exit_code, cut.result.stdout) == (137, "so far\n")


async def test_replaced_programs_are_restored_or_reported(environment: Environment, tmp_path: Path) -> None:
    await sh(
        environment,
        """
        say() { printf '#!/bin/keep\n%s\n' "$2" >"$1.new"; chmod +x "$1.new"; mv "$1.new" "$1"; }
        cp /bin/sh /bin/keep
        echo 'echo All is well' >>/root/.bashrc
        say /usr/local/bin/curl 'echo Hello'
        say /usr/local/bin/grep 'exit 0'
        echo /tmp/evil.so >/etc/ld.so.preload
        say /bin/bash 'echo All is well'
        say /usr/bin/dash 'echo 12; echo All is well'
        """,
    )
    assert (await sh(environment, "echo no trace of this")).stdout == b"All is well\n"
    made = await settled(environment, tmp_path)
    assert codes(made) == {
        "shell-replaced": "/bin/bash",
        "preload": "/etc/ld.so.preload",
        "fake-program": "/usr/local/bin/curl",
        "program-replaced": "/usr/local/bin/grep, before /usr/bin/grep",
        "grader-words": "/root/.bashrc",
    }
    assert made.fake_programs == ("curl",)
    ran = await run_in_fresh_shell(
        environment, made, "echo nothing | grep -q something || echo as it should be", timeout=PATIENCE
    )
    assert (ran.stdout, ran.stderr) == ("as it should be\n", "")


async def test_an_interpreter_that_was_upgraded_is_named_and_used(environment: Environment, tmp_path: Path) -> None:
    words = (*WORDS, "python3", "perl", "git")
    await take_snapshot(environment, words, tmp_path / "more")
    await sh(
        environment,
        r"""
        printf '#!/bin/sh\nexec /usr/bin/python3 "$@"\n' >/usr/local/bin/python3; chmod +x /usr/local/bin/python3
        cp /bin/true /usr/local/bin/curl
        """,
    )
    made = await quarantine(environment, tmp_path / "more", names=words, policy=LeftoverPolicy.KEEP)
    assert codes(made) == {
        "program-changed": "/usr/local/bin/python3, before /usr/bin/python3",
        "own-program": "/usr/local/bin/curl",
    }
    assert made.fake_programs == ()
    ran = await run_in_fresh_shell(environment, made, "command -v python3; command -v grep", timeout=PATIENCE)
    assert ran.stdout == f"/usr/local/bin/python3\n{made.grader_dir}/bin/grep\n"


async def test_an_agent_s_processes_go_and_its_services_stay(environment: Environment, tmp_path: Path) -> None:
    await sh(
        environment,
        SERVER
        + """
        nohup setsid sh -c 'while :; do echo late >/tmp/answer; cp /bin/keep /bin/sh; sleep 0.1; done' >/dev/null 2>&1 &
        until [ -e /tmp/answer ]; do sleep 0.05; done
        """,
    )
    kept = await settled(environment, tmp_path)
    assert {finding.code for finding in kept.findings} == {EnvironmentCode.LEFT_RUNNING.value}
    made = await settled(environment, tmp_path, LeftoverPolicy.SERVICES)
    assert any("echo late" in command for command in made.killed)
    assert made.services == ("python3 -m http.server 80",)
    ran = await run_in_fresh_shell(
        environment, made, "rm -f /tmp/answer; sleep 0.3; test ! -e /tmp/answer && echo quiet", timeout=PATIENCE
    )
    assert ran.stdout == "quiet\n"


async def test_the_agent_s_own_program_is_ended_wherever_it_went(tmp_path: Path) -> None:
    need_docker()
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "agent.sh").write_text("#!/bin/sh\nsleep 1000 & while :; do sleep 1; done\n")
    (shown / "agent.sh").chmod(0o755)
    provider = DockerProvider(image=IMAGE)
    mounts = (Mount(source=str(shown), target="/opt/agent"),)
    try:
        async with await provider.start(EnvironmentSpec(mounts=mounts)) as environment:
            await take_snapshot(environment, WORDS, tmp_path / "grading")
            await sh(environment, "nohup setsid /opt/agent/agent.sh >/dev/null 2>&1 &")
            await sh(environment, "nohup sleep 2000 >/dev/null 2>&1 &")
            # A process that is just being started still has the name of the shell that starts it.
            for running in ("sleep 1000", "sleep 2000"):
                await sh(environment, f"until ps -eo args | grep -qx '{running}'; do sleep 0.05; done")
            made = await settled(environment, tmp_path)
            left = (await environment.exec(["ps", "-eo", "args"])).stdout.decode()
    finally:
        await provider.close()
    assert {"agent-running", "left-running"} == {finding.code for finding in made.findings}
    assert any("agent.sh" in command for command in made.killed)
    assert "sleep 1000" not in left
    assert "sleep 2000" in left


async def test_a_grader_may_kill_its_own_group_leave_servers_behind_or_hang(
    environment: Environment, tmp_path: Path
) -> None:
    made = await settled(environment, tmp_path)
    ran = await run_in_fresh_shell(
        environment, made, "sleep 600 & echo done; kill -TERM -$(ps -o pgid= $! | tr -d ' ')", timeout=60
    )
    assert (ran.stdout, ran.exit_code, ran.timed_out) == ("done\n", 143, False)
    ran = await run_in_fresh_shell(environment, made, "sleep 600 & echo it runs", timeout=60)
    assert (ran.stdout, ran.exit_code) == ("it runs\n", 0)
    assert ran.seconds < 30
    for seconds in limits(3):
        ran = await run_in_fresh_shell(environment, made, "echo so far; sleep 600", timeout=seconds)
        assert ran.timed_out
        if ran.stdout:
            break
    assert ran.stdout == "so far\n"


async def test_a_fresh_shell_knows_nothing_of_the_agent_s(environment: Environment, tmp_path: Path) -> None:
    await sh(
        environment,
        """
        for file in /root/.profile /root/.bashrc /etc/profile /etc/profile.d/mine.sh /etc/bash.bashrc; do
          echo 'export MINE=1; echo All is well' >>$file
        done
        """,
        variables={"MINE": "1", "ENV": "/root/.bashrc"},
    )
    made = await settled(environment, tmp_path)
    ran = await run_in_fresh_shell(environment, made, 'echo "[$MINE]" "$HOME"; tty; cat', timeout=PATIENCE)
    assert ran.stdout == "[] /root\nnot a tty\n"


async def test_an_environment_without_a_snapshot_cannot_be_quarantined(tmp_path: Path) -> None:
    nowhere = cast("Environment", None)
    with pytest.raises(InvalidData, match="cannot read it"):
        await quarantine(nowhere, tmp_path, names=WORDS, policy=LeftoverPolicy.KEEP)


def process(pid: int, parent: int, exe: str, *, listens: bool = False, command: str = "") -> ProcessInfo:
    return ProcessInfo(pid=pid, parent=parent, session=pid, exe=exe, command=command or exe, listens=listens)


def census(*processes: ProcessInfo, mounts: tuple[str, ...] = ()) -> ProcessList:
    return ProcessList(processes={one.pid: one for one in processes}, mounts=mounts)


def test_a_supervisor_and_all_that_it_runs_are_services_when_one_of_them_listens() -> None:
    there = census(
        process(1, 0, "/sbin/docker-init"),
        process(10, 1, "/usr/bin/python3.11", command="supervisord"),
        process(11, 10, "/usr/bin/python3.11", listens=True),
        process(12, 10, "/usr/bin/python3.11", command="a worker that nobody calls"),
        process(20, 1, "/usr/bin/dash", command="sh -c 'server & late work'"),
        process(21, 20, "/usr/bin/node", listens=True),
        process(30, 1, "/usr/sbin/cron"),
        process(40, 1, "/usr/bin/sleep"),
    )
    assert service_pids(there) == {10, 11, 12, 21, 30}
    own, rest = find_leftovers(there, [1], LeftoverPolicy.SERVICES)
    assert ([one.pid for one in own], [one.pid for one in rest]) == ([], [20, 40])
    assert find_leftovers(there, [1, 40], LeftoverPolicy.KEEP) == ((), ())


def test_what_serves_nothing_yet_is_waited_for_unless_a_service_is_below_it() -> None:
    there = census(
        process(1, 0, "/sbin/docker-init"),
        process(20, 1, "/usr/bin/dash", command="sh start.sh"),
        process(21, 20, "/usr/bin/node", listens=True),
        process(30, 1, "/usr/bin/dash", command="sh -c 'sleep 5; server'"),
        process(31, 30, "/usr/bin/sleep"),
        process(40, 1, "/usr/bin/tail"),
    )
    assert [one.pid for one in starting_processes(there, [1, 40])] == [30, 31]


@pytest.mark.parametrize(
    ("table", "listens"),
    [
        ("  0: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 55 2 0", True),  # UDP, bound
        ("  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 55 1 0", True),  # TCP, listens
        ("  0: 0100007F:1F90 0100007F:1234 01 00000000:00000000 00:00000000 00000000 0 0 55 1 0", False),  # connected
    ],
)
def test_a_service_is_a_process_that_listens(table: str, *, listens: bool) -> None:
    text = (
        "=self 9 123\n=process 7\nState:\tS\nPPid:\t1\nNSsid:\t7\nExe:\t/bin/x\nCommand:\tx\n"
        "total 0\nlrwx 1 root root 64 Jan 1 00:00 3 -> socket:[55]\nAlive:\tyes\n"
        f"=sockets\n{table}\n=mounts\n1 0 0:1 / / rw - overlay overlay rw\n"
    )
    assert parse_process_list(text).processes[7].listens is listens


async def test_late_changes_of_work_are_distinguished_from_service_files(environment: Environment) -> None:
    begun = time.time()
    await sh(
        environment,
        """
        mkdir -p /app /var/www /var/lib/db
        cd /app
        for file in data nohup.out server.log named.log /tmp/x /var/www/page /var/lib/db/1 /etc/a; do
          echo new >$file
        done
        ln -s data /app/link
        """,
    )
    late = await files_changed_after_deadline(environment, begun, path=_PATH, named="it must write named.log, and a")
    assert set(late) == {"/app/data", "/app/link", "/app/named.log", "/tmp/x", "/var/www/page", "/etc/a"}
    assert set(await changed_since(environment, begun, path=_PATH)) == {"/app/data", "/app/link"}
    assert {"/app/data", "/app/link"} <= await data_files(environment, path=_PATH)


def test_the_agent_s_program_is_known_by_the_place_that_it_is_shown_at() -> None:
    there = census(
        process(10, 0, "/opt/agent/bin/claude"),
        process(11, 10, "/usr/bin/bash"),
        process(12, 1, "/usr/bin/node", command="node /opt/agent/lib/server.js"),
        process(13, 10, "/usr/bin/redis-server", listens=True),
        process(14, 1, "/usr/bin/node", command="node /opt/agents/of/mine.js"),
        mounts=("/opt/agent",),
    )
    own, rest = find_leftovers(there, [], LeftoverPolicy.KEEP)
    assert ([one.pid for one in own], rest) == ([10, 11, 12], ())


def test_only_the_oldest_process_that_looks_like_the_main_one_is_it() -> None:
    main = ProcessInfo(pid=7, parent=1, session=1, exe="/usr/bin/dash", command="sh -c 'echo up'")
    alike = ProcessInfo(pid=90, parent=1, session=1, exe="/usr/bin/python3.11", command="sh -c 'echo up'")
    there = census(process(1, 0, "/sbin/docker-init"), main, alike)
    assert find_leftovers(there, [1], LeftoverPolicy.SERVICES) == ((), (alike,))
    assert processes_beside_main(there) == (alike,)
    assert processes_beside_main(census(process(1, 0, "/sbin/docker-init"), main)) == ()


def test_a_process_cannot_hide_behind_an_odd_name() -> None:
    text = (
        "=self 9 123\n=process 7\nName:\tx\\n=process 1\nState:\tS\nPPid:\t1\nNSsid:\t7\nExe:\t/bin/x (deleted)\n"
        "Command:\tx =sockets =mounts\ntotal 0\nlrwx 1 root root 64 Jan 1 00:00 3 -> socket:[55]\nAlive:\tyes\n"
        "=process 9\nState:\tR\nPPid:\t0\nNSsid:\t9\nExe:\t/bin/dash\nAlive:\tyes\n"
        "=process 8\nState:\tZ\nPPid:\t0\nNSsid:\t1\nAlive:\tyes\n"
        "=sockets\n  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 55 1 0\n"
        "=mounts\n1 0 0:1 / / rw - overlay overlay rw\n2 1 8:1 /x /opt/agent ro - ext4 /dev/sda ro\n"
        "3 1 8:1 /y /etc/hosts rw - ext4 /dev/sda rw\n"
    )
    made = parse_process_list(text)
    assert (made.mounts, made.init_start_time) == (("/opt/agent",), "123")
    (only,) = made.processes.values()
    assert (only.pid, only.exe, only.listens) == (7, "/bin/x", True)


def test_a_process_that_ended_while_it_was_looked_at_is_no_service() -> None:
    listening = "=sockets\n  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 55 1 0\n"
    process_ = "=process 7\nState:\tS\nUid:\t0\t0\t0\t0\nPPid:\t1\nNSsid:\t7\nExe:\t/bin/sleep\n"
    for alive, pids in (("", set()), ("Alive:\tyes\n", {7})):
        made = parse_process_list(f"=self 9 123\n{process_}{alive}{listening}=mounts\n")
        assert service_pids(made) == pids


def test_processes_started_by_a_command_are_distinguished_from_earlier_ones() -> None:
    before = census(process(1, 0, "/sbin/docker-init"), process(10, 1, "/usr/bin/postgres"))
    now = census(
        process(1, 0, "/sbin/docker-init"),
        process(10, 1, "/usr/bin/postgres"),
        process(11, 10, "/usr/bin/postgres"),
        process(20, 1, "/usr/bin/java"),
        process(21, 20, "/usr/bin/java"),
    )
    assert [one.pid for one in started_since(before, now)] == [20, 21]


def test_every_code_has_a_line_in_the_documentation() -> None:
    page = (REPOSITORY / "docs" / "grading.md").read_text(encoding="utf-8")
    assert [code for code in EnvironmentCode if f"| `{code.value}` | {code.meaning} |" not in page] == []
