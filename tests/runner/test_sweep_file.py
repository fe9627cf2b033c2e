"""A sweep's file: what it expands to, and everything that can be wrong with it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paths import REPOSITORY
from proctor.core.environment import Network
from proctor.core.errors import UsageError
from proctor.core.request import Mode
from proctor.runner.sweep_file import SweepFile, read_sweep_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def read(folder: Path, text: str) -> SweepFile:
    file = folder / "pods.toml"
    file.write_text(text)
    return read_sweep_file(file)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        read(folder, text)
    assert caught.value.exit_code == 2
    return list(caught.value.details)


def test_a_grid_is_every_combination_and_labels_say_what_differs(folder: Path) -> None:
    sweep = read(
        folder,
        """
        benchmark = "core"
        agent = "oracle"
        max_turns = 7
        [grid]
        model = ["sonnet", "opus"]
        attempts = [1, 3]
        preset = ["empty"]
        """,
    )
    assert list(sweep.configurations) == [
        "model=sonnet trials=1",
        "model=sonnet trials=3",
        "model=opus trials=1",
        "model=opus trials=3",
    ]
    assert [(one.model, one.trials) for one in sweep.configurations.values()] == [
        ("sonnet", 1),
        ("sonnet", 3),
        ("opus", 1),
        ("opus", 3),
    ]
    assert {(one.agent, one.max_turns) for one in sweep.configurations.values()} == {("oracle", 7)}
    assert (sweep.name, sweep.reference, sweep.rule) == ("pods", "model=sonnet trials=1", None)


def test_options_that_a_mode_does_not_use_do_not_multiply_configurations(folder: Path) -> None:
    sweep = read(
        folder,
        """
        benchmark = "core"
        model = "sonnet"
        [grid]
        mode = ["baseline", "h2"]
        pod_template = ["small", "large"]
        [grid.variables]
        coders = [1, 2]
        """,
    )
    assert list(sweep.configurations) == [
        "mode=baseline",
        "mode=h2 pod_template=small coders=1",
        "mode=h2 pod_template=small coders=2",
        "mode=h2 pod_template=large coders=1",
        "mode=h2 pod_template=large coders=2",
    ]
    single, *_, pod = sweep.configurations.values()
    assert (single.mode, single.agent, single.preset, single.pod_template, single.variables) == (
        *(Mode.BASELINE, "claude_code", "empty", None),
        {},
    )
    assert (pod.mode, pod.agent, pod.preset, pod.pod_template, pod.variables) == (
        *(Mode.H2, "h2_pod", "opus", "large"),
        {"coders": "2"},
    )


def test_a_grid_may_vary_agent_options(folder: Path) -> None:
    (folder / "careful.md").write_text("Be careful.")
    sweep = read(
        folder,
        """
        benchmark = "core"
        model = "sonnet"
        agent_env = {MAX_THINKING_TOKENS = 16000}
        [grid]
        mode = ["baseline", "h2"]
        append_system_prompt = ["", "@careful.md"]
        allowed_tools = ["Bash", "Bash(git *),Read"]
        """,
    )
    assert [(label, one.append_system_prompt) for label, one in sweep.configurations.items()] == [
        ("mode=baseline append_system_prompt=none allowed_tools=Bash", None),
        ("mode=baseline append_system_prompt=none allowed_tools=Bash(git *),Read", None),
        ("mode=baseline append_system_prompt=@careful.md allowed_tools=Bash", "Be careful."),
        ("mode=baseline append_system_prompt=@careful.md allowed_tools=Bash(git *),Read", "Be careful."),
        ("mode=h2", None),
    ]
    assert list(sweep.configurations.values())[1].allowed_tools == ("Bash(git *)", "Read")
    assert {one.agent_env["MAX_THINKING_TOKENS"] for one in sweep.configurations.values()} == {"16000"}


def test_runs_can_be_named_one_by_one_beside_a_grid(folder: Path) -> None:
    sweep = read(
        folder,
        """
        suite = "suites/mine"
        baseline = "nobody"
        rule = "better, cost ratio <= 1.2"
        [grid]
        agent = ["command"]
        command = ["solve --fast", ["solve", "--with care"]]
        [[run]]
        name = "nobody"
        agent = "nop"
        """,
    )
    assert [(label, one.command) for label, one in sweep.configurations.items()] == [
        ("command=solve --fast", ("solve", "--fast")),
        ("command=solve '--with care'", ("solve", "--with care")),
        ("nobody", ()),
    ]
    assert (sweep.reference, sweep.rule) == ("nobody", "better, cost ratio <= 1.2")
    assert {one.suite for one in sweep.configurations.values()} == {str(folder / "suites/mine")}


def test_shared_options_and_paths_are_relative_to_the_sweep_file(folder: Path) -> None:
    (folder / "able.yaml").touch()
    (folder / "pod.yaml").touch()
    (folder / "bad.txt").write_text("b # flaky\n")
    sweep = read(
        folder,
        """
        name = "first try"
        benchmark = "core"
        split = "test"
        tasks = ["a", "b"]
        tags = ["x"]
        exclude = "bad.txt"
        limit = 5
        shuffle = 0
        concurrency = 4
        grade_concurrency = 2
        max_cost = 3
        max_cost_per_task = 0.5
        network = "none"
        runner = "docker"
        image = "box"
        isolation = false
        mode = "h2"
        pod_template = "pod.yaml"
        timeout = 90
        model = "script:able.yaml"
        variables = {a = 1, b = true}
        [grid]
        attempts = [2]
        """,
    )
    (request,) = sweep.configurations.values()
    assert (request.model, request.pod_template) == (f"script:{folder}/able.yaml", str(folder / "pod.yaml"))
    assert (request.max_cost, request.max_cost_per_task) == (3.0, 0.5)
    assert (request.concurrency, request.grade_concurrency, request.shuffle, request.network) == (4, 2, 0, Network.NONE)
    assert (request.runner, request.image, request.isolation, request.timeout) == ("docker", "box", False, 90.0)
    assert request.variables == {"a": "1", "b": "true"}
    assert (request.tasks, request.exclude, request.limit) == (("a", "b"), ("b",), 5)
    assert (sweep.name, request.split) == ("first try", "test")


def test_every_problem_is_found_in_one_go_with_its_place(folder: Path) -> None:
    found = problems(
        folder,
        """
        benchmark = "core"
        suite = "both"
        concurency = 3
        max_cost = 0
        rule = "much better"
        isolation = "off"
        [grid]
        mode = ["baseline", "h3"]
        attempts = []
        modell = ["sonnet"]
        variables = 3
        [[run]]
        agent = 7
        command = "'"
        """,
    )
    places = [line.split(": ")[0] for line in found]
    assert sorted(places) == sorted(
        [
            *("concurency", "max_cost", "isolation", "benchmark", "grid.modell", "grid.mode[1]", "grid.attempts"),
            *("grid.variables", "run[0].name", "run[0].agent", "run[0].command", "rule"),
        ]
    )
    lines = dict(line.split(": ", 1) for line in found)
    assert lines["concurency"] == "there is no such key; did you mean concurrency?"
    assert lines["grid.mode[1]"] == "must be one of baseline, h2, not 'h3'"
    assert lines["grid.attempts"] == "must be a list of at least one value"
    assert "'much better' is not a condition" in lines["rule"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('benchmark = "core"', "grid: there is nothing to run: give [grid] or [[run]]"),
        ('benchmark = "core"\n[grid]\nagent = ["nop", "nop"]', "grid.agent: has a value twice"),
        (
            'benchmark = "core"\n[[run]]\nname = "a"\nagent = "nop"\n[[run]]\nname = "a"\nagent = "oracle"',
            "run[1]: another configuration is called 'a' too",
        ),
        (
            'benchmark = "core"\n[[run]]\nname = "a"\nagent = "nop"\n[[run]]\nname = "b"\nagent = "nop"',
            "run[1]: 'b' is the same as 'a'",
        ),
        (
            'benchmark = "core"\nbaseline = "c"\n[[run]]\nname = "a"\nagent = "nop"',
            "reference: no configuration is called 'c'; there are: a",
        ),
        (
            'benchmark = "core"\n[grid]\npod_template = ["x", "y"]',
            'pod_template: is given, and no configuration uses it: it is for mode = "h2"',
        ),
        (
            'benchmark = "core"\ncommand = "x"\n[grid]\nagent = ["nop"]',
            'command: is given, and no configuration uses it: it is for agent = "command"',
        ),
        (
            'benchmark = "core"\nmode = "h2"\nmax_turns = 9\n[grid]\nmodel = ["opus"]',
            'max_turns: is given, and no configuration uses it: it is for mode = "baseline"',
        ),
        ('benchmark = "core"\n[grid]\nsystem_prompt = ["@none.md"]', "grid.system_prompt[0]: "),
        (
            'benchmark = "core"\n[grid]\nallowed_tools = ["Bash("]',
            "grid.allowed_tools[0]: 'Bash(' is not a list of tools",
        ),
        ('benchmark = "core"\n[[run]]\nname = "a"\nagent_env = 3', "run[0].agent_env: must be a table, not 3"),
        (
            'benchmark = "core"\nmode = "h2"\nsystem_prompt = "x"\n[grid]\nmodel = ["opus"]',
            'system_prompt: is given, and no configuration uses it: it is for mode = "baseline"',
        ),
        ('benchmark = "core"\nexclude = "none.txt"\n[grid]\nagent = ["nop"]', "exclude: "),
        ('benchmark = "core"\nrun = 3', "run: must be a list of tables: [[run]]"),
        ('benchmark = "core"\ngrid = 3', "grid: must be a table"),
    ],
)
def test_a_problem_is_named(folder: Path, text: str, problem: str) -> None:
    assert problem in problems(folder, text)[0]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"name = \n", "the sweep is not valid TOML: Invalid value (at line 1, column 8)"),
        (b"\xff", "cannot read the sweep: it is not UTF-8 text"),
        (None, "cannot read the sweep: No such file"),
    ],
)
def test_a_file_that_is_not_a_sweep_is_refused_in_one_sentence(
    folder: Path, content: bytes | None, sentence: str
) -> None:
    file = folder / "sweep.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_sweep_file(file)
    assert sentence in str(caught.value)


KEYS = st.sampled_from(["benchmark", "suite", "grid", "run", "mode", "model", "variables", "rule", "limit", "x"])
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "a", "h2", "better", "script:a", "'"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_no_document_breaks_the_reader(document: dict[str, object]) -> None:
    from proctor.runner.sweep_file import _SweepFileReader

    reader = _SweepFileReader(document, Path("/nowhere"))
    assert (reader.read("", "x") is None) == bool(reader.problems)


def test_the_page_on_sweeps_shows_a_sweep(folder: Path) -> None:
    page = (REPOSITORY / "docs/sweep.md").read_text()
    sweep = read(folder, page.partition("```toml\n")[2].partition("```")[0])
    assert list(sweep.configurations) == [
        "mode=baseline",
        *(f"mode=h2 pod_template={name} coders={count}" for name in ("benchmark", "duo.yaml") for count in (1, 2)),
        "opus alone",
    ]
    assert (sweep.reference, sweep.rule) == ("mode=baseline", "better, cost ratio <= 3")
