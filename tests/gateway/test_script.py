import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from proctor.core.errors import InvalidData, UsageError
from proctor.gateway.script import ScriptCut, ScriptError, ScriptStep, TaskScript, parse_script, read_script

EXAMPLE = """
tasks:
  add-1:
    - text: I look around.
      tools: [{Bash: {command: ls}}]
      usage: {input: 1000, output: 20}
    - {repeat: 2, error: 529}
    - {if: "passed", then: [{text: Done.}], else: [{text: Hm., cut: 2}]}
default:
  steps: [{text: Nothing to do.}]
  conversations:
    - {agent: reviewer, steps: [{text: Fine.}]}
    - {prompt: "^Explore", steps: [{text: Found.}]}
"""


def test_a_script_is_read_from_yaml(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text(EXAMPLE)
    script = read_script(file)
    task = script.for_task("add-1")
    assert task is not None
    assert task.steps[0].tools == [{"Bash": {"command": "ls"}}]
    assert task.steps[1].error == 529
    assert task.steps[2].else_[0].cut == 2
    other = script.for_task("anything")
    assert isinstance(other, TaskScript)
    assert [entry.agent for entry in other.conversations] == ["reviewer", None]


def test_a_task_without_a_script_and_without_a_default_has_none() -> None:
    assert parse_script({"tasks": {"a": [{"text": "x"}]}}).for_task("b") is None


def test_short_and_long_forms_mean_the_same() -> None:
    script = parse_script(
        {"default": [{"error": {"status": 429, "headers": {"retry-after": "1"}}}, {"cut": {"after": 3}}]}
    )
    task = script.for_task("x")
    assert task == TaskScript(
        steps=[
            ScriptStep(error=ScriptError(status=429, headers={"retry-after": "1"})),
            ScriptStep(cut=ScriptCut(after=3)),
        ]
    )


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        ([], ["the script: [] is not of type 'object'"]),
        ({}, ["neither `tasks` nor `default`"]),
        ({"default": [{"txt": "x"}]}, ["default[0]", "'txt' was unexpected"]),
        ({"default": [{"error": 42}]}, ["default[0].error", "42 is less than the minimum of 100"]),
        ({"default": [{"text": "x", "delay": -1}]}, ["default[0].delay", "-1 is less than the minimum of 0"]),
        ({"default": [{"text": "x", "usage": {"inptu": 1}}]}, ["default[0].usage", "'inptu'"]),
        ({"tasks": {"a": [{"text": 5}]}}, ["tasks.a[0].text: 5 is not of type 'string'"]),
        ({"tasks": {7: []}}, ["tasks: the key 7 must be in quotes"]),
        ({"default": [{}]}, ["default[0]: the step is empty"]),
        ({"default": [{"text": "x", "error": 500}]}, ["default[0]: a step is one thing, not a response and error"]),
        ({"default": [{"text": "x", "content": []}]}, ["default[0]: `content` replaces text"]),
        ({"default": [{"if": "(", "then": [{"text": "x"}]}]}, ["default[0].if: not a regular expression"]),
        ({"default": [{"text": "a", "then": [{"text": "x"}]}]}, ["default[0]: `then` and `else` need an `if`"]),
        ({"default": [{"tools": [{"A": {}, "B": {}}]}]}, ["default[0].tools[0]: a tool call is one name"]),
        (
            {"default": {"steps": [], "conversations": [{"prompt": "[", "steps": [{"repeat": 2, "steps": [{}]}]}]}},
            ["default.conversations[0].prompt", "default.conversations[0].steps[0].steps[0]: the step is empty"],
        ),
    ],
)
def test_a_problem_is_named_with_its_place(document: Any, problems: list[str]) -> None:
    with pytest.raises(InvalidData) as caught:
        parse_script(document, where="script.yaml")
    sentence = str(caught.value)
    assert sentence.startswith("script.yaml: the script has ")
    for problem in problems:
        assert problem in sentence


def test_all_problems_are_named_at_once() -> None:
    document = {"default": [{"txt": "x"}, {"text": 1}], "tasks": {"a": [{"repeat": "often", "text": "x"}]}, "more": 1}
    with pytest.raises(InvalidData, match="4 problems") as caught:
        parse_script(document)
    for place in ("default[0]", "default[1].text", "tasks.a[0].repeat", "'more' was unexpected"):
        assert place in str(caught.value)


def test_a_file_that_is_no_yaml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_bytes(b"a: [")
    with pytest.raises(InvalidData, match="neither YAML nor JSON"):
        read_script(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read the script: it is not UTF-8 text"):
        read_script(file)
    with pytest.raises(UsageError, match="cannot read the script"):
        read_script(tmp_path / "missing.yaml")


def test_the_example_in_the_documentation_is_a_valid_script() -> None:
    page = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()
    examples = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    (example,) = [document for document in examples if "tasks" in document]
    script = parse_script(example)
    assert {"fix-add"} == script.tasks.keys()
    known = {field for line in page.split("| a step has |")[1].splitlines() for field in re.findall(r"`(\w+)`", line)}
    assert {field.rstrip("_") for field in ScriptStep.__struct_fields__} <= known
