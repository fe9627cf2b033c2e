"""Wasted steps and failure modes of set-ups, from what an agent did."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.benchmarks.setupbench.log_measures import (
    SetupAction,
    SetupFailureMode,
    actions_of,
    count_waste,
    files_read,
    setup_failure,
)
from proctor.core.trajectory import Step, ToolCall


def ran(*commands: str) -> list[SetupAction]:
    return [SetupAction(kind="command", text=command) for command in commands]


START = ran("ls", "cat README.md", "uname -a")


def test_steps_that_were_not_needed_are_named_by_cause() -> None:
    found = count_waste(
        [
            *START,
            *ran("sudo apt-get install -y curl", "which python3", "node --version", "cat README.md", "cat setup.py"),
            SetupAction(kind="read", text="setup.py"),
            SetupAction(kind="read", text="LICENSE"),
            SetupAction(kind="other", text=""),
            *ran("sleep 5", "ps aux", "apt-get install -y make", "ls docs", "head -n 20 a.txt | grep x"),
        ]
    )
    assert found.causes == {"checked": 2, "off_target": 1, "reread": 2, "sudo": 1}
    assert (found.steps, found.wasted, found.listings, found.reads) == (10, 6, 1, 5)


def test_which_files_a_command_shows() -> None:
    assert files_read(ran("cd /x && cat a.txt b/c | head -n 5")[0]) == ("a.txt", "b/c")
    assert files_read(ran("sed -n '1,5p' setup.cfg")[0]) == ("setup.cfg",)
    assert files_read(ran("echo cat README.md")[0]) == ()
    assert files_read(SetupAction(kind="edit", text="a.txt")) == ()


@pytest.mark.parametrize(
    ("said", "commands", "mode"),
    [
        ("/bin/sh: 1: tox: not found", ["pip install -r requirements/dev.pip"], SetupFailureMode.TEST_TOOLS_MISSING),
        ("/usr/bin/python3: No module named pytest", ["pip install ."], SetupFailureMode.TEST_TOOLS_MISSING),
        (
            "sh: 1: pnpm: not found",
            ["npm install -g pnpm", "echo 'export A=1' >>~/.bashrc"],
            SetupFailureMode.NOT_PERSISTENT,
        ),
        ("sh: 1: node: not found", ["source ~/.nvm/nvm.sh && nvm install node"], SetupFailureMode.NOT_PERSISTENT),
        (
            "curl: (7) Failed to connect to localhost port 8080",
            ["PORT=49152 npm start &"],
            SetupFailureMode.INVENTED_CONSTRAINT,
        ),
        (
            "Could not connect to Redis at 127.0.0.1:6379: Connection refused",
            ["apt install"],
            SetupFailureMode.SERVICE_DOWN,
        ),
        ("2 failed, 5 passed", [], SetupFailureMode.UNKNOWN),
    ],
)
def test_why_a_set_up_failed(said: str, commands: list[str], mode: SetupFailureMode) -> None:
    assert setup_failure(said, ran(*commands)).mode is mode


def test_the_actions_of_a_trajectory() -> None:
    def call(name: str, **arguments: object) -> ToolCall:
        return ToolCall(id="c", name=name, arguments=arguments)

    steps = [
        Step(source="agent", calls=(call("Bash", command="ls"), call("Read", file_path="/testbed/README.md"))),
        Step(source="user"),
        Step(source="agent", calls=(call("TodoWrite", todos=[]), call("Glob", pattern="*.py"), call("Bash"))),
    ]
    assert [(action.kind, action.text) for action in actions_of(steps)] == [
        ("command", "ls"),
        ("read", "/testbed/README.md"),
        ("other", ""),
        ("list", "*.py"),
        ("command", ""),
    ]


@given(
    st.lists(st.builds(SetupAction, kind=st.sampled_from(["command", "read", "list"]), text=st.text(max_size=30))),
    st.text(),
)
def test_no_log_is_too_odd(actions: list[SetupAction], said: str) -> None:
    found = count_waste(actions)
    assert found.wasted <= found.steps
    setup_failure(said, actions)
