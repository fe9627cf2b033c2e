from observations import config
from proctor.analysis.comparability import differences
from proctor.core.environment import Network


def test_configurations_are_compared_except_names_and_times() -> None:
    one = config()
    other = config(
        run_id="run-002",
        created_at="later",
        concurrency=9,
        model="claude-y",
        command=("a", "b"),
        versions={"claude": "2.2", "h2": "1"},
        network=Network.OPEN,
        timeout=60.0,
        tasks=tuple("abcxyz"),
        data_digest="e",
    )
    assert differences(one, one) == ()
    found = differences(one, other)
    assert [str(difference) for difference in found if difference.subject] == [
        "command: None and a b",
        "model: claude-x and claude-y",
    ]
    assert [str(difference) for difference in found if not difference.subject] == [
        "versions claude: 2.1 and 2.2",
        "versions h2: None and 1",
        "data_digest: d and e",
        "tasks: 6 and 6, 3 in common",
        "concurrency: 1 and 9",
        "timeout: None and 60.0",
        "network: None and open",
    ]


def test_agent_options_may_be_under_test_and_long_prompts_are_cut() -> None:
    other = config(append_system_prompt="Be careful. " * 50, allowed_tools=("Bash", "Read"), agent_env={"A": "1"})
    found = differences(config(), other)
    assert all(difference.subject for difference in found)
    assert [str(difference) for difference in found] == [
        f"append_system_prompt: None and {('Be careful. ' * 7)[:80].rstrip()}… (600 characters)",
        "allowed_tools: None and Bash Read",
        "agent_env A: None and 1",
    ]


def test_results_of_another_tool_or_benchmark_are_another_condition() -> None:
    found = differences(config(), config(benchmark="core-mini", origin="harbor job"))
    assert [str(difference) for difference in found if not difference.subject] == [
        "benchmark: core and core-mini",
        "origin: None and harbor job",
    ]
