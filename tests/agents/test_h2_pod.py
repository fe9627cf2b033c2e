"""Pods that misbehave as h2's do, in real environments: each ends in the right way, in time, with the reason."""

import asyncio
import json
import secrets
import shutil
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environment_factory import make_provider, sh
from pods import one_file
from proctor.agents import read_outcome
from proctor.agents.h2.pod_state import PodTimeouts
from proctor.agents.h2.timeline import TIMELINE_FILE, Timeline
from proctor.agents.h2_pod import H2Pod
from proctor.core.agent import AgentOutcome, AgentRequest, AgentSetup
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Network
from proctor.core.programs import find_claude
from proctor.core.record import read_record
from proctor.environments import local_unavailable_reason
from proctor.environments.local import LocalProvider
from proctor.gateway import Gateway, GatewaySessionSpec, ScriptBackend, read_script
from proctor.sandboxes import Sandbox, Sandboxes
from real_claude import TODAYS_OPUS, TODAYS_SONNET
from terminal_session import recorded_output
from waiting import eventually, limits

SETTLE = 1.0
# Longer than a pod that seems to be done is waited for.
LONG = 2.5
TIMEOUTS = PodTimeouts(
    poll=0.25,
    ready=60,
    prompt=60,
    quiet=SETTLE,
    open_turn=20,
    delivery=20,
    blocked=0.3,
    permission=0.6,
    confirmed_error=0.3,
    possible_error=1.0,
    status=30,
    unresponsive=1.0,
    dead=0.5,
    stop=10,
)
PROMPT = {"hook": "UserPromptSubmit"}
STOP = {"hook": "Stop"}
TOOL = {"hook": "PreToolUse", "payload": {"tool_name": "Bash"}}
WORK = {"run": "echo done >result"}
ALONE = "pod_name: alone\nagents:\n  - name: concierge\n    role: concierge\n"
PAIR = ALONE + "  - name: coder-1\n    role: coder\n"


@dataclass
class PodRun:
    """A sandbox, programs, and a place for an environment."""

    folder: Path
    programs: Path
    provider: EnvironmentProvider
    sandbox: Sandbox
    model_socket: socket.socket
    progress: list[str] = field(default_factory=list)
    environment: Environment | None = None
    timeouts: PodTimeouts = TIMEOUTS
    in_place: bool = False
    claude: str | None = "claude"
    start_seconds: float | None = None

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def timeline(self) -> Timeline:
        return read_record(self.logs / TIMELINE_FILE, Timeline)

    def script(self, pod: str = ALONE, **scenario: Any) -> None:
        (self.sandbox.home / "pods" / "test.yaml").write_text(pod)
        (self.sandbox.home / "standin.json").write_text(json.dumps({"grandchildren": 0, **scenario}))

    def request(self, wall_seconds: float | None = 150) -> AgentRequest:
        self.logs.mkdir(exist_ok=True)
        return AgentRequest(
            task_id="t",
            instruction="Do it.",
            logs=str(self.logs),
            sandbox=str(self.sandbox.home),
            model="claude-sonnet-4-5",
            wall_seconds=wall_seconds,
        )

    async def solve(self, request: AgentRequest | None = None, workdir: str = "/workspace") -> AgentOutcome:
        request = request or self.request()
        setup = AgentSetup(
            program=None if self.claude is None else str(self.programs / self.claude),
            h2_program=str(self.programs / "h2"),
            pod_template="test",
            in_place=self.in_place,
        )
        agent = H2Pod(setup, timeouts=self.timeouts)
        if self.start_seconds is not None:
            agent = H2Pod(msgspec.structs.replace(setup, pod_start_timeout=self.start_seconds))
        workspace = self.folder / "tree"
        workspace.mkdir(exist_ok=True)
        spec = EnvironmentSpec(
            workspace=workspace, workdir=workdir, network=Network.MODEL, model_socket=self.folder / "model.sock"
        )
        self.environment = await self.provider.start(agent.prepare_spec(spec, request))
        return await agent.solve(request, self.environment, self.progress.append)

    async def again(self) -> None:
        """Put all back for another try, with more time."""
        assert self.environment is not None
        await self.environment.stop()
        self.progress.clear()
        for folder in (self.logs, self.folder / "tree"):
            shutil.rmtree(folder)
        # What an earlier pod has left there is a part of the next one's story; a run resets the sandbox.
        for name in ("sessions", "messages", "logs"):
            shutil.rmtree(self.sandbox.home / name)
            (self.sandbox.home / name).mkdir()

    async def output(self, command: str) -> str:
        assert self.environment is not None
        return (await sh(self.environment, command)).stdout.decode()

    async def result(self) -> str:
        return (await self.output("cat result 2>/dev/null")).strip()

    def activity(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.logs / "h2/logs/session-activity.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name in ("h2", "claude"):
        one_file(name, folder)
    return folder


@pytest.fixture
def model_socket(tmp_path: Path) -> Iterator[socket.socket]:
    """Where the gateway would be; none of these agents asks a model."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "model.sock"))
        listener.listen()
        yield listener


@pytest.fixture
async def run(tmp_path: Path, programs: Path, model_socket: socket.socket) -> AsyncIterator[PodRun]:
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    sandbox = Sandboxes(tmp_path / "sandboxes").create("s1", preset="opus")
    made = PodRun(tmp_path, programs, LocalProvider(environments_dir=tmp_path / "environments"), sandbox, model_socket)
    yield made
    if made.environment is not None:
        await made.environment.stop()


async def test_a_pod_is_given_the_task_by_file_and_is_done_when_it_is_done(run: PodRun) -> None:
    # Its turn is long beside what a busy machine adds to it, so that nearly all of the time is active.
    run.script(turn=[PROMPT, TOOL, {"after": 8.0, **WORK}, {**STOP, "payload": {"last_assistant_message": "Done."}}])
    outcome = await run.solve()
    assert (outcome.cause, outcome.detail) == (None, "every agent of the pod has finished")
    assert (await run.result(), outcome.final_text) == ("done", "Done.")
    (message,) = (run.logs / "h2/messages/concierge").iterdir()
    assert message.read_text().split() == ["Do", "it."]
    assert len(message.read_bytes()) > 300, "a short one would be typed, line ends and all"
    assert outcome.metrics.agents == 1
    assert outcome.metrics.steps == 1
    assert (outcome.metrics.active_share or 0) > 0.9
    assert outcome.seconds < time.monotonic()
    assert read_outcome(run.logs) == outcome


async def test_idle_after_a_compaction_is_not_the_end(run: PodRun) -> None:
    compact = {"hook": "SessionStart", "payload": {"source": "compact"}}
    run.script(turn=[PROMPT, {"hook": "PreCompact"}, compact, {"after": LONG, **TOOL}, WORK, STOP])
    outcome = await run.solve()
    assert (outcome.cause, await run.result()) == (None, "done")
    assert outcome.metrics.compactions == 1
    (line,) = run.timeline.agents
    assert line.active_seconds > LONG, "the turn went on all the time"


async def test_idle_before_the_prompt_registers_is_not_the_end(run: PodRun) -> None:
    run.script(turn=[{"after": LONG, **PROMPT}, WORK, STOP])
    run.timeouts = msgspec.structs.replace(TIMEOUTS, delivery=0)
    outcome = await run.solve()
    assert (outcome.cause, await run.result()) == (None, "done")


async def test_a_task_that_is_never_taken_is_an_error(run: PodRun) -> None:
    run.script(turn=[])
    run.timeouts = PodTimeouts(poll=0.1, prompt=0.5, quiet=0.1)
    outcome = await run.solve()
    assert outcome.cause is Cause.ENVIRONMENT_FAILED
    assert "concierge: it did not take the task" in outcome.detail


async def test_a_message_that_was_typed_and_not_sent_off_is_sent_off(run: PodRun) -> None:
    coder = {"turn": [PROMPT, WORK, STOP]}
    run.script(PAIR, swallow=True, turn=[PROMPT, {"run": "h2 send coder-1 go on"}, STOP], agents={"coder-1": coder})
    run.timeouts = msgspec.structs.replace(TIMEOUTS, nudge=0.5)
    outcome = await run.solve()
    assert (outcome.cause, await run.result()) == (None, "done")
    assert [member.messages for member in outcome.metrics.members] == [1, 0], "Enter is no message"


async def test_a_message_that_was_typed_in_the_middle_of_a_turn_is_sent_off_after_it(run: PodRun) -> None:
    first = "if [ -e first ]; then echo done >result; else touch first; h2 send coder-1 go; sleep 5; fi"
    coder = {"turn": [PROMPT, {"run": "h2 send concierge ready"}, STOP]}
    run.script(PAIR, swallow=True, turn=[PROMPT, {"run": first}, STOP], agents={"coder-1": coder})
    run.timeouts = msgspec.structs.replace(TIMEOUTS, nudge=0.5, quiet=2)
    outcome = await run.solve()
    assert (outcome.cause, await run.result()) == (None, "done")


async def test_an_agent_that_left_its_session_and_came_back_was_not_gone(run: PodRun) -> None:
    run.script(turn=[PROMPT, {"hook": "SessionEnd"}, {"after": LONG, **TOOL}, WORK, STOP])
    outcome = await run.solve()
    assert (outcome.cause, await run.result()) == (None, "done")
    assert outcome.metrics.context_resets == 1


async def test_a_program_that_has_ended_is_not_idle_whatever_h2_says(run: PodRun) -> None:
    # The last event comes after the end, and h2 still reports idle.
    run.script(child="read -r line; echo I give up; exit 3", turn=[PROMPT, {"after": 0.3, **STOP}])
    outcome = await run.solve()
    assert outcome.cause is Cause.AGENT_CRASHED
    assert "concierge: its program exited with code 3 in the middle of the work" in outcome.detail
    assert "I give up" in outcome.detail


LATE: list[dict[str, Any]] = [{"queue_seconds": 6}, {"turn": [{"after": 6, **PROMPT}, WORK, STOP]}]


@pytest.mark.parametrize("late", LATE, ids=["queued", "typed"])
async def test_a_message_on_its_way_keeps_the_pod_running(run: PodRun, late: dict[str, Any]) -> None:
    coder = {"turn": [PROMPT, WORK, STOP], **late}
    run.script(PAIR, turn=[PROMPT, {"run": "h2 send --priority idle coder-1 go on"}, STOP], agents={"coder-1": coder})
    outcome = await run.solve()
    assert (outcome.cause, await run.result()) == (None, "done")
    assert outcome.metrics.messages == 1
    assert [(message.sender, message.to) for message in run.timeline.messages] == [("concierge", "coder-1")]
    assert [member.messages for member in outcome.metrics.members] == [1, 0]


async def test_a_start_up_dialog_is_shown(run: PodRun) -> None:
    run.script(child="printf 'Do you trust\\033[1m this folder?\\r\\n'; sleep 60", ready_seconds=None)
    for seconds in limits(0.8):
        run.timeouts = PodTimeouts(poll=0.1, ready=seconds)
        outcome = await run.solve()
        assert outcome.cause is Cause.ENVIRONMENT_FAILED
        if "trust" in outcome.detail:
            break
        await run.again()
    assert "concierge: it is still starting" in outcome.detail
    assert "Do you trust this folder?" in outcome.detail
    assert "trust this folder" in (run.logs / "screen-concierge.txt").read_text()


async def test_a_pod_that_does_not_start_is_given_the_time_that_the_setup_says(run: PodRun) -> None:
    run.script(ready_seconds=None)
    run.start_seconds = 1.5
    outcome = await run.solve()
    assert outcome.cause is Cause.ENVIRONMENT_FAILED
    assert "concierge: it is still starting 1.5 s after its launch (--pod-start-timeout)" in outcome.detail


# Recorded from the real Claude Code: the first does not even fit on the screen.
DURING_WORK = {"auto-mode-check": "Auto mode can't check actions", "permission": "Do you want to proceed?"}
SHOW = 'cat "$H2_DIR/dialog"; sleep 600'


@pytest.mark.parametrize("name", DURING_WORK)
async def test_a_dialog_that_h2_does_not_report_is_found_on_the_screen_and_is_no_failure_of_the_agent(
    run: PodRun, name: str
) -> None:
    (run.sandbox.home / "dialog").write_bytes(recorded_output(name))
    run.script(child=f"read -r line; {SHOW}", turn=[PROMPT, TOOL])
    run.timeouts = msgspec.structs.replace(TIMEOUTS, dialog=0.5)
    outcome = await run.solve()
    assert outcome.cause is Cause.ENVIRONMENT_FAILED
    assert "concierge: a dialog waits for a person; on its screen: " in outcome.detail
    assert DURING_WORK[name] in outcome.detail
    assert DURING_WORK[name] in (run.logs / "screen-concierge.txt").read_text()


async def test_a_dialog_is_found_when_the_time_is_up_too(run: PodRun) -> None:
    (run.sandbox.home / "dialog").write_bytes(recorded_output("permission"))
    run.script(child=f"read -r line; {SHOW}", turn=[PROMPT, TOOL])
    for seconds in limits(6):
        outcome = await run.solve(run.request(wall_seconds=seconds))
        if outcome.cause is not Cause.AGENT_TIMEOUT:
            break
        await run.again()
    assert outcome.cause is Cause.ENVIRONMENT_FAILED
    assert "Do you want to proceed?" in outcome.detail


async def test_no_task_is_typed_into_a_dialog(run: PodRun) -> None:
    (run.sandbox.home / "dialog").write_bytes(recorded_output("auto-mode-offer"))
    run.script(child=SHOW, ready_seconds=2, turn=[PROMPT, WORK, STOP])
    outcome = await run.solve()
    assert outcome.cause is Cause.ENVIRONMENT_FAILED
    assert "Make auto mode your default permission mode?" in outcome.detail
    assert not (run.logs / "h2/messages/concierge").exists()


async def test_a_long_command_is_no_dialog(run: PodRun) -> None:
    (run.sandbox.home / "dialog").write_bytes(recorded_output("command"))
    run.script(child=f"read -r line; {SHOW}", turn=[PROMPT, TOOL, {"after": LONG, **WORK}, STOP])
    run.timeouts = msgspec.structs.replace(TIMEOUTS, dialog=0.2)
    outcome = await run.solve()
    assert (outcome.cause, await run.result()) == (None, "done")


ASK = {"hook": "PermissionRequest", "payload": {"tool_name": "Bash"}}
ASK_USER = {"hook": "permission_decision", "payload": {"tool_name": "Bash", "decision": "ask_user"}}
LIMIT = {"state": ["idle", "usage_limit"], "message": "You've hit your limit"}
ENDS: dict[str, tuple[list[dict[str, Any]], Cause, str]] = {
    "blocked": (
        [PROMPT, ASK, ASK_USER],
        Cause.ENVIRONMENT_FAILED,
        "it waits for a user to permit what it wants to do",
    ),
    "undecided": ([PROMPT, ASK], Cause.ENVIRONMENT_FAILED, "nothing decides on the permission that it asks for"),
    "limited": ([PROMPT, LIMIT], Cause.RATE_LIMITED, "its usage limit is reached: You've hit your limit"),
    "refused": ([PROMPT, {"state": ["idle", "auth_error"], "message": "Bad key"}], Cause.BAD_LOGIN, "Bad key"),
    "failing": (
        [PROMPT, {"state": ["idle", "server_error"], "message": "529 Overloaded"}],
        Cause.PROVIDER_ERROR,
        "the provider kept failing: 529 Overloaded",
    ),
    "daemon dies": ([PROMPT, {"die": True}], Cause.ENVIRONMENT_FAILED, "its h2 daemon has died"),
}


@pytest.mark.parametrize(("turn", "cause", "sentence"), ENDS.values(), ids=ENDS.keys())
async def test_a_pod_that_fails_ends_with_the_reason(
    run: PodRun, turn: list[dict[str, Any]], cause: Cause, sentence: str
) -> None:
    run.script(turn=turn)
    started = time.monotonic()
    outcome = await run.solve()
    assert outcome.cause is cause
    assert "concierge: " in outcome.detail
    assert sentence in outcome.detail
    assert time.monotonic() - started < 75, "long before the time is up"


async def test_server_errors_that_pass_are_waited_for(run: PodRun) -> None:
    failing = {"state": ["idle", "server_error"], "message": "500"}
    run.script(turn=[PROMPT, failing, {"after": 2, **TOOL}, failing, {"after": 2, **TOOL}, WORK, STOP])
    run.timeouts = msgspec.structs.replace(TIMEOUTS, possible_error=10)
    outcome = await run.solve()
    assert (outcome.cause, await run.result()) == (None, "done")


async def test_a_daemon_that_does_not_reply_is_given_up_in_time(run: PodRun) -> None:
    run.script(PAIR, agents={"coder-1": {"hang": True}})
    started = time.monotonic()
    # Somebody who hangs from the start never lets the pod begin.
    run.timeouts = PodTimeouts(poll=0.2, status=1.5, unresponsive=0.5, stop=1)
    outcome = await run.solve()
    assert outcome.cause is Cause.ENVIRONMENT_FAILED
    assert "coder-1: its h2 daemon did not reply" in outcome.detail
    assert time.monotonic() - started < 75
    assert await survivors(run) == ""


async def test_an_agent_with_a_slow_git_is_waited_for_and_stopped(run: PodRun) -> None:
    """`h2 list` and `h2 pod stop` give a status 2 s and then act as if there were no agent."""
    run.script(PAIR, status_seconds=2.5, turn=[PROMPT, WORK, STOP])
    outcome = await run.solve()
    assert (outcome.cause, await run.result()) == (None, "done")
    ended = {line["actor"] for line in run.activity() if line["event"] == "session_summary"}
    assert ended == {"concierge", "coder-1"}, "each was stopped, not killed"


async def survivors(run: PodRun) -> str:
    """What still runs of a pod."""
    return await run.output(
        "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f; echo; done | grep -E '[s]leep|[_]daemon'"
    )


async def test_nothing_that_an_agent_started_survives(run: PodRun) -> None:
    hidden = "setsid env -i sleep 86400 </dev/null >/dev/null 2>&1 & sleep 0.1"
    run.script(PAIR, grandchildren=2, ignore_term=True, turn=[PROMPT, {"run": hidden}, STOP])
    outcome = await run.solve()
    assert outcome.cause is None
    assert await survivors(run) == ""
    assert list((run.sandbox.home / "sockets").iterdir()) == []


async def test_an_agent_that_never_starts_fails_the_pod_and_the_others_are_stopped(run: PodRun) -> None:
    run.script(PAIR, grandchildren=1, agents={"coder-1": {"fail": "claude: not found"}})
    outcome = await run.solve()
    assert outcome.cause is Cause.ENVIRONMENT_FAILED
    assert "daemon did not start" in outcome.detail
    assert "coder-1: error: claude: not found" in outcome.detail
    assert await survivors(run) == ""
    assert [line["actor"] for line in run.activity() if line["event"] == "session_summary"] == ["concierge"]


async def test_a_program_that_ends_at_once_is_an_error_and_not_the_agents_failure(run: PodRun) -> None:
    run.script(child="echo cannot be used with root privileges; exit 1")
    outcome = await run.solve()
    assert outcome.cause is Cause.ENVIRONMENT_FAILED
    assert "exited with code 1 before it had begun; on its screen: cannot be used with root" in outcome.detail


async def test_a_workspace_that_h2_cannot_map_is_not_tried(run: PodRun) -> None:
    run.script()
    outcome = await run.solve(workdir="/work_space")
    assert outcome.cause is Cause.NOT_RUNNABLE_HERE
    assert "h2 cannot follow Claude Code in the folder /work_space" in outcome.detail


async def test_a_pod_that_takes_too_long_is_stopped_and_what_it_left_is_kept(run: PodRun) -> None:
    run.script(turn=[PROMPT, TOOL, WORK, {"run": "sleep 600"}, STOP])
    for seconds in limits(6):
        outcome = await run.solve(run.request(wall_seconds=seconds))
        assert outcome.cause is Cause.AGENT_TIMEOUT
        assert f"was not done after {seconds:g} s" in outcome.detail
        assert await survivors(run) == ""
        if await run.result() == "done" and any("running: concierge" in what for what in run.progress):
            break
        await run.again()
    assert await run.result() == "done"
    assert (run.logs / "h2/sessions/concierge/events.jsonl").is_file()
    assert any("running: concierge" in what for what in run.progress)


async def test_a_pod_that_is_cancelled_is_stopped_and_its_outcome_is_kept(run: PodRun) -> None:
    run.script(turn=[PROMPT, TOOL, {"run": "sleep 60"}])
    working = asyncio.create_task(run.solve())
    await eventually(lambda: "running: concierge" in run.progress or working.done(), "its work")
    assert not working.done()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    kept = read_outcome(run.logs)
    assert kept is not None
    assert kept.cause is Cause.INTERRUPTED
    assert await survivors(run) == ""


async def test_a_pod_without_walls_leaves_nothing_either(
    tmp_path: Path, programs: Path, model_socket: socket.socket
) -> None:
    # Where h2 can map it: a name from `tempfile` may have an underscore in it.
    place = Path("/tmp") / f"pod-{secrets.token_hex(6)}"
    sandbox = Sandboxes(tmp_path / "sandboxes").create("s1", preset="opus")
    provider = LocalProvider(isolation=False, environments_dir=place / "environments")
    run = PodRun(tmp_path, programs, provider, sandbox, model_socket, in_place=True)
    run.script(grandchildren=1, turn=[PROMPT, WORK, STOP])
    try:
        outcome = await run.solve()
        assert (outcome.cause, await run.result()) == (None, "done")
        named = f"H2_DIR={sandbox.home}"
        left = [path for path in Path("/proc").glob("[0-9]*/environ") if named in _read(path).split("\0")]
        assert left == []
    finally:
        if run.environment is not None:
            await run.environment.stop()
        shutil.rmtree(place, ignore_errors=True)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.slow
async def test_a_pod_works_in_a_container(tmp_path: Path, programs: Path, model_socket: socket.socket) -> None:
    provider = make_provider("docker", tmp_path)
    sandbox = Sandboxes(tmp_path / "sandboxes").create("s1", preset="opus")
    run = PodRun(tmp_path, programs, provider, sandbox, model_socket)
    run.script(PAIR, grandchildren=1, turn=[PROMPT, WORK, STOP])
    try:
        outcome = await run.solve()
        assert (outcome.cause, await run.result()) == (None, "done"), outcome.detail
        assert await survivors(run) == ""
        assert (run.logs / "h2/sessions/coder-1/events.jsonl").is_file()
    finally:
        if run.environment is not None:
            await run.environment.stop()
        await provider.close()


# Each runs what the auto mode of today's models stops at, unless another mode is set.
TALK = """
default:
  conversations:
    - agent: concierge
      steps:
        - tools: [{Bash: {command: "python3 -c 'open(\\"result\\", \\"a\\").write(\\"opus \\")'; h2 send coder-1 go"}}]
        - {text: All is done.}
    - agent: coder-1
      steps:
        - tools: [{Bash: {command: "python3 -c 'open(\\"result\\", \\"a\\").write(\\"sonnet\\")'"}}]
        - {text: So is my part.}
usage: {input: 100, output: 10}
"""
TODAYS_POD = f"""
pod_name: today
agents:
  - name: concierge
    role: concierge
    overrides: {{agent_model: {TODAYS_OPUS}}}
  - name: coder-1
    role: plain
    overrides: {{agent_model: {TODAYS_SONNET}}}
"""


@pytest.mark.slow
async def test_the_real_claude_code_starts_without_a_question_and_works_with_the_models_of_today(run: PodRun) -> None:
    if find_claude() is None:
        pytest.skip("Claude Code is not installed")
    run.script(TODAYS_POD, claude=True)
    (run.sandbox.home / "roles/plain.yaml").write_text("role_name: plain\n")
    run.model_socket.close()
    (run.folder / "talk.yaml").write_text(TALK)
    async with Gateway(ScriptBackend(read_script(run.folder / "talk.yaml"))) as gateway:
        await gateway.listen_unix(run.folder / "model.sock")
        async with gateway.session(GatewaySessionSpec(task_id="t", label="t")) as session:
            run.timeouts = msgspec.structs.replace(TIMEOUTS, ready=60, prompt=30, nudge=2, quiet=4)
            run.claude = None
            request = msgspec.structs.replace(run.request(120), model_path=session.path)
            outcome = await run.solve(request)
            usage = session.usage
    assert (outcome.cause, await run.result()) == (None, "opus sonnet"), outcome.detail
    served = {entry.agent: (entry.turns, [used.model for used in entry.models]) for entry in usage.agents}
    assert served == {"concierge": (2, [TODAYS_OPUS]), "coder-1": (2, [TODAYS_SONNET])}
    assert outcome.final_text == "All is done."
    hooks = [line.get("hook_event") for line in run.activity()]
    assert {"SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"} <= set(hooks)
