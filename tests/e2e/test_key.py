"""The key stays where it belongs: in no file of a run, and in no process of an environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli_world import CliWorld, access
from proctor.environments import local_unavailable_reason
from toy_provider import KEY, MODEL, toy_provider

# Everything that a process in the environment can see of itself and of the others, printed and submitted.
DUMP = r"""
{ env; for p in /proc/[0-9]*; do tr '\0' '\n' <$p/environ; tr '\0' ' ' <$p/cmdline; done; } >answer.txt 2>/dev/null
cat answer.txt; cat answer.txt >&2
"""
# The same from an environment without walls, but only of the processes above this one, up to the command itself.
CLIMB = r"""
p=$$
for level in 1 2 3; do
  { tr '\0' '\n' </proc/$p/environ; } >>answer.txt
  case $(tr '\0' ' ' </proc/$p/cmdline) in *"-m proctor bench run"*) break ;; esac
  read -r line </proc/$p/stat; set -- ${line##*) }; p=$2
done
cat answer.txt; cat answer.txt >&2
"""


def holders(*folders: Path, secret: str) -> list[Path]:
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 5
    return [path for path in files if secret.encode() in path.read_bytes()]


def program(cli_world: CliWorld, text: str) -> Path:
    file = cli_world.folder / "dump.sh"
    file.write_text(f"#!/bin/sh\n{text}")
    file.chmod(0o755)
    return file


async def test_no_file_of_a_run_and_no_process_in_its_environment_holds_the_key(cli_world: CliWorld) -> None:
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    ask = """
python3 - <<'END'
import json, os, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
question = [{"role": "user", "content": "task: toy-0001"}]
body = {"model": os.environ["PROCTOR_MODEL"], "max_tokens": 5, "messages": question}
headers = {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}
print(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read())
END
"""
    async with toy_provider() as provider:
        run = ("bench", "run", "toy", "--agent", "command", "--model", MODEL)
        done = await cli_world.run(
            *run, "--claude-bin", program(cli_world, ask + DUMP), **access(provider), TOY_TASKS=1
        )
    assert done.code == 0, done
    assert provider.keys == {KEY}, "the provider was not asked with the key"
    handed_in = (cli_world.store().logs("toy-0001", 1, 1) / "submission.diff").read_text()
    assert "PROCTOR_TASK_ID=toy-0001" in handed_in, "the agent saw no environment at all"
    assert holders(cli_world.folder, cli_world.temporary, secret=KEY) == []


async def test_a_key_that_an_agent_finds_without_walls_is_redacted_and_reported(cli_world: CliWorld) -> None:
    """Without isolation the environment of the command itself can be read, and the key is in it."""
    file = program(cli_world, CLIMB)
    async with toy_provider() as provider:
        command = [
            *(sys.executable, "-m", "proctor", "bench", "run", "toy", "--agent", "command"),
            *("--agent-command", str(file), "--model", MODEL, "--isolation", "off", "--quiet"),
        ]
        env = {**cli_world.env, **access(provider), "TOY_TASKS": "1"}
        done = subprocess.run(command, env=env, cwd=cli_world.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    logs = cli_world.store().logs("toy-0001", 1, 1)
    for name in ("stdout.log", "stderr.log", "submission.diff"):
        assert "ANTHROPIC_API_KEY=[redacted]" in (logs / name).read_text(), name
    assert holders(cli_world.folder, cli_world.temporary, secret=KEY) == []
    (result,) = cli_world.store().results()
    assert result.verdict is not None
    assert [finding.code for finding in result.verdict.findings] == ["secret_in_submission"]
