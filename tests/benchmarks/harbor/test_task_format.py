"""Harbor's task format, read and converted to."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from harbor_world import OLD_TASK, TASKS, opened, write_task, write_tasks
from proctor.benchmarks import benchmark, published_rows
from proctor.benchmarks.harbor import package_digest, read_task
from proctor.benchmarks.harbor.dockerfile import container_start
from proctor.benchmarks.harbor.task_format import without_canary
from proctor.benchmarks.terminal_bench import SOURCE, convert
from proctor.benchmarks.terminal_bench.convert import variants
from proctor.core.environment import Network
from proctor.core.errors import InfrastructureError, InvalidData, UsageError
from proctor.core.machine import Machine
from proctor.core.record import to_json


def test_every_schema_is_read_with_its_own_defaults(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    read = {name: read_task(tmp_path / name) for name in TASKS}
    limits = {
        name: (
            task.steps[0].agent_seconds,
            task.steps[0].verifier.seconds,
            task.environment.cpus,
            task.environment.memory_mb,
        )
        for name, task in read.items()
    }
    assert limits == {
        "greet": (60.0, 60.0, 1.0, 1024),
        "count-words": (60.0, 600.0, 1.0, 512),
        "serve": (60.0, 600.0, None, None),
        "repair": (60.0, 60.0, None, None),
        "recover": (600.0, 600.0, 1.0, 2048),
    }
    assert {name: task.environment.workdir for name, task in read.items()} == {
        "greet": "/app",
        "count-words": "/app/text",
        "serve": "/app",
        "repair": "/app",
        "recover": "/srv/work",
    }
    assert read["repair"].name == "proctor/repair"
    assert [read[name].environment.network.mode for name in ("repair", "serve")] == ["no-network", "public"]
    assert read["recover"].environment.image == "proctor-test/ready:1"
    assert read["greet"].steps[0].instruction == "Write `hello` into /app/greeting.txt.\n"


def test_a_task_becomes_one_of_ours(tmp_path: Path) -> None:
    bench = opened(write_tasks(tmp_path))
    tasks = {task.id: task for task in bench.tasks()}
    assert list(tasks) == sorted(tasks)
    repair = tasks["proctor/repair"]
    assert repair.categories == {"difficulty": "hard", "category": "scripts"}
    assert repair.tags == ("hard", "scripts", "ours")
    assert (repair.public.network, tasks["greet"].public.network) == (Network.MODEL, Network.OPEN)
    assert bench.fingerprint(repair) == package_digest(tmp_path / "repair")
    assert repair.private.oracle is not None
    assert b"solve.sh" not in to_json(repair.public)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("<!-- my-canary GUID 1 -->\n\n\nDo it.\n", "Do it.\n"),
        ("# Canary: keep out\n# another canary\nDo it.\n", "Do it.\n"),
        ("# A heading\nDo it.\n", "# A heading\nDo it.\n"),
        ("Do it.\n<!-- canary -->\n", "Do it.\n<!-- canary -->\n"),
        ("\nDo it.\n", "\nDo it.\n"),
        ("", ""),
    ],
)
def test_lines_that_mark_a_text_are_kept_from_the_agent(text: str, seen: str) -> None:
    assert without_canary(text) == seen


@pytest.mark.parametrize(
    ("dockerfile", "workdir", "entrypoint"),
    [
        ("FROM x\nWORKDIR /app\nWORKDIR sub\n", "/app/sub", ()),
        ("FROM x\n  workdir '/a b'\nUSER 0:0\n", "/a b", ()),
        ("FROM x AS one\nWORKDIR /one\nFROM y\nRUN echo WORKDIR /two\n", "", ()),
        ("FROM x AS one\nWORKDIR /one\nFROM one\nWORKDIR below\n", "", ()),
        ("FROM x\nENV PLACE=/app\nWORKDIR $PLACE\nWORKDIR sub\n", "", ()),
        ("FROM x\r\nWORKDIR /app\r\nRUN a \\\r\n  b\r\n", "/app", ()),
        ('FROM x\nUSER me\nENTRYPOINT ["/a", \\\n "b"]\n', "", ("/a", "b")),
        ("FROM x\nENTRYPOINT exec /start now\n", "", ("/bin/sh", "-c", "exec /start now")),
        ("", "", ()),
    ],
)
def test_how_a_container_starts(dockerfile: str, workdir: str, entrypoint: tuple[str, ...]) -> None:
    start = container_start(dockerfile)
    assert (start.workdir, start.entrypoint) == (workdir, entrypoint)


UNSUPPORTED = {
    "[environment]\nos = 'windows'\n": "windows as operating system",
    "[verifier.environment]\nos = 'Windows'\n": "windows as operating system",
    "[environment.tpu]\ntype = 'v6e'\ntopology = '2x2'\n": "a TPU",
}


@pytest.mark.parametrize("more", UNSUPPORTED)
def test_an_unsupported_setting_is_refused_by_name(more: str, tmp_path: Path) -> None:
    config = f'schema_version = "1.4"\n{more}'
    write_task(tmp_path / "it", TASKS["serve"] | {"task.toml": config})
    (refused,) = opened(tmp_path).invalid_tasks()
    assert refused.problems == (f"it needs {UNSUPPORTED[more]}",)
    assert opened(tmp_path).tasks() == ()


def test_a_conversation_that_goes_before_is_refused_too(tmp_path: Path) -> None:
    write_task(tmp_path / "b", TASKS["serve"] | {"trajectory.json": "{}"})
    (refused,) = opened(tmp_path).invalid_tasks()
    assert refused.problems == ("it needs a conversation that goes before",)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"task.toml": "version = '1.0"}, "not TOML"),
        ({"task.toml": 'version = "9.0"'}, "schema '9.0' is not known"),
        ({"task.toml": "environment = 1"}, r"\[environment\] is not a table"),
        ({"task.toml": "[agent]\ntimeout_sec = 'long'"}, "timeout_sec is 'long'"),
        ({"task.toml": "[environment]\nmemory = 'much'"}, "memory is 'much'"),
        ({"task.toml": "[environment]\nmemory = '2G'\nmemory_mb = 1024"}, "memory_mb is 1024"),
        ({"task.toml": "artifacts = ['../x']"}, "an artifact's source is '../x'"),
        ({"task.toml": "[environment]\nallowed_hosts = ['a.b']"}, "for the network mode allowlist"),
        (
            {"task.toml": "[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['http://a.b']"},
            "neither a host's name nor an address",
        ),
        ({"task.toml": "[environment]\nnetwork_mode = 'some'"}, "not as Harbor has it"),
        ({"task.toml": "[verifier]\nenvironment_mode = 'own'"}, "not shared or separate"),
        ({"task.toml": "[[steps]]\nname = '../x'"}, "not that of a folder"),
        ({"tests/test.sh": None}, r"no tests/test\.sh"),
        ({"environment/Dockerfile": None}, "neither a Dockerfile nor a docker_image"),
        ({"instruction.md": None}, "instruction.md: cannot read it"),
    ],
)
def test_a_broken_task_says_what_is_wrong(files: dict[str, str | None], message: str, tmp_path: Path) -> None:
    whole = TASKS["greet"] | {name: text for name, text in files.items() if text is not None}
    write_task(tmp_path / "it", {name: text for name, text in whole.items() if name not in files or files[name]})
    with pytest.raises(InvalidData, match=message):
        read_task(tmp_path / "it")
    assert [bad.task_id for bad in opened(tmp_path).invalid_tasks()] == ["it"]


# Every setting of the format, each on a line of its own.
ALL_SETTINGS = """
schema_version = "1.4"
artifacts = ["/a", { source = "/b", exclude = ["x"] }]
multi_step_reward_strategy = "mean"
[task]
name = "ours/all"
[metadata]
tags = ["x"]
difficulty = "easy"
[agent]
timeout_sec = 1.0
user = "x"
network_mode = "allowlist"
allowed_hosts = ["a.b"]
[verifier]
timeout_sec = 1.0
environment_mode = "separate"
env = { A = "b" }
[[verifier.collect]]
command = "x"
service = "main"
timeout_sec = 3
user = "x"
[verifier.environment]
docker_image = "x"
memory = "1G"
[environment]
docker_image = "y"
os = "linux"
cpus = 1
memory_mb = 5
storage = "1G"
gpus = 0
tpu = {}
workdir = "/x"
skills_dir = "/s"
env = { A = "1" }
[environment.healthcheck]
command = "x"
interval_sec = 1.0
retries = 3
[[environment.mcp_servers]]
name = "x"
transport = "stdio"
args = ["a"]
[solution]
env = { A = "b" }
[[steps]]
name = "one"
min_reward = 1.0
artifacts = ["/c"]
[steps.agent]
timeout_sec = 3.0
[steps.verifier]
env = { A = "c" }
"""
OTHER_KINDS = ("3", "-1", "nan", '"x"', '""', "[]", "[3]", "{}", "{ x = 1 }", "true", "[{}]", "[[]]", "1979-05-27")


def test_whatever_a_setting_is_the_task_is_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "tasks" / "all", {"steps/one/instruction.md": "x\n", "tests/test.sh": "true\n"})
    lines = ALL_SETTINGS.strip().splitlines()
    refused = set()
    for number, line in enumerate(lines):
        name, equals, _ = line.partition(" = ")
        for value in OTHER_KINDS if equals else ():
            changed = [*lines[:number], f"{name} = {value}", *lines[number + 1 :]]
            (folder / "task.toml").write_text("\n".join(changed))
            bench = opened(tmp_path / "tasks")
            assert len(bench.tasks()) + len(bench.invalid_tasks()) == 1
            refused |= {name for _ in bench.invalid_tasks()}
    assert refused >= {"artifacts", "timeout_sec", "cpus", "gpus", "workdir", "env", "allowed_hosts", "name"}
    (folder / "task.toml").write_text("\n".join(lines))
    assert [task.id for task in opened(tmp_path / "tasks").tasks()] == ["ours/all"]


def test_the_digest_is_harbor_s(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "it", {"task.toml": "a", "tests/b": "c", "notes.txt": "not packaged"})
    lines = [f"{name}\0{hashlib.sha256(text).hexdigest()}\n" for name, text in (("task.toml", b"a"), ("tests/b", b"c"))]
    assert package_digest(folder) == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_a_task_of_the_old_format_is_converted(tmp_path: Path) -> None:
    old = write_task(tmp_path / "sort-names", OLD_TASK)
    assert list(variants(old)) == ["sort-names.hard", "sort-names"]
    convert(old, tmp_path / "new")
    task = read_task(tmp_path / "new")
    (step,) = task.steps
    assert (step.agent_seconds, step.verifier.seconds, task.environment.memory_mb) == (120.0, 30.0, 2048)
    assert step.instruction == "Sort /app/names.txt into /app/sorted.txt."
    assert task.metadata["tags"] == ["ours"]
    context = {
        path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*") if path.is_file()
    }
    assert context == {
        "environment/Dockerfile",
        "environment/data/tests/kept.txt",
        "environment/names.txt",
        "instruction.md",
        "solution/solve.sh",
        "task.toml",
        "tests/run-tests.sh",
        "tests/test.sh",
        "tests/test_outputs.py",
    }
    convert(old, tmp_path / "hard", "task.hard.yaml")
    assert read_task(tmp_path / "hard").steps[0].agent_seconds == 360


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"docker-compose.yaml": "services: {client: {}, db: {}}"}, "more containers than one: db"),
        ({"task.yaml": "instruction: a\nparser_name: other"}, "read by 'other'"),
        ({"task.yaml": "instruction: a\nrun_tests_in_same_shell: true"}, "the agent's own shell"),
        ({"task.yaml": "difficulty: easy"}, "no instruction"),
        ({"task.yaml": "- a"}, "not one object"),
        ({"task.yaml": "a: ["}, "it is not YAML that can be read"),
    ],
)
def test_an_old_task_that_cannot_be_converted_says_why(files: dict[str, str], message: str, tmp_path: Path) -> None:
    old = write_task(tmp_path / "old", OLD_TASK | files)
    with pytest.raises(InvalidData, match=message):
        convert(old, tmp_path / "new")


async def test_tasks_are_fetched_from_a_folder_old_ones_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path / "cache"))
    folder = write_tasks(tmp_path / "tasks")
    write_task(folder / "two", OLD_TASK | {"docker-compose.yaml": "services: {client: {}, db: {}}"})
    said: list[str] = []
    got = await SOURCE.fetch("other", tmp_path, said.append)
    assert (got.tasks, got.split) == (7, "other")
    (line,) = said
    assert line.startswith("left out: 2 tasks (two.hard, …): ")
    bench = benchmark("terminal_bench", "other")
    assert len(bench.tasks()) == 7
    assert bench.split == "other"
    with pytest.raises(UsageError, match="--from PATH"):
        await SOURCE.fetch("other", None, said.append)
    (tmp_path / "none").mkdir()
    with pytest.raises(InvalidData, match="no task is here"):
        await SOURCE.fetch("2.0", tmp_path / "none", said.append)


async def test_what_a_task_asks_of_the_machine_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    config = TASKS["repair"]["task.toml"].replace(":-6", "")
    write_task(tmp_path / "key", TASKS["repair"] | {"task.toml": config})
    write_task(tmp_path / "gpu", TASKS["greet"] | {"task.toml": 'version = "1.0"\n[environment]\ngpus = 1\n'})
    bench = opened(tmp_path)
    tasks = {task.id: task for task in bench.tasks()}
    with pytest.raises(InfrastructureError, match="needs the variable PROCTOR_TEST_WANTED"):
        await bench.prepare(tasks["proctor/repair"], tmp_path / "a")
    machine = Machine(platform="linux-x86_64", python="3.11", cpus=8, memory_mb=64_000)
    missing = bench.missing_requirement(tasks["gpu"], machine, "docker")
    assert missing is not None
    assert "needs 1 GPU" in missing
    assert bench.missing_requirement(tasks["gpu"], msgspec.structs.replace(machine, gpus=1), "docker") is None


def test_published_rows_say_which_version_they_are_of() -> None:
    rows = published_rows("terminal_bench")
    claude = {row.split: row for row in rows if (row.agent, row.model) == ("Claude Code", "Claude Opus 4.6")}
    assert (claude["2.0"].rate, claude["2.1"].rate) == (0.580, 0.701)
    assert claude["2.1"].details == {"standard_error": 0.029}
    assert {row.split for row in rows} == {"1.0", "2.0", "2.1"}
