"""`bench report`, `show` and `compare` on real runs."""

import csv
import io
import re

from cli_world import CliWorld, access, toy_run
from toy_provider import failing, toy_provider


async def test_runs_are_reported_shown_and_compared(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        env = {**access(provider), "TOY_TASKS": 8}
        await cli_world.run(*toy_run(provider, "--quiet", "--concurrency", 4), **env)
        provider.overrides["toy-0008"] = [failing(418)] * 9
        for number in range(1, 8):
            provider.last_words[f"toy-{number:04}"] = "wrong"
        env["TOY_DEVIATION"] = "chalk in the place of cheese"
        await cli_world.run(*toy_run(provider, "--quiet", "--concurrency", 4, "--retries", 0), **env)

    report = await cli_world.run("bench", "report", "toy")
    assert report.code == 0
    lines = [re.split(r"\s{2,}", line) for line in report.stdout.splitlines()]
    assert lines[0] == ["toy Results"]
    # The time depends on the machine.
    assert lines[4][:5] == ["run-001", "command", "claude-sonnet-4-5", "8/8", "$0.0135"]
    assert lines[4][6:] == ["1", "67.6% to 100.0%", "0"]
    assert lines[5][:4] == ["run-002", "command", "claude-sonnet-4-5", "0/7"]
    assert lines[5][6:] == ["1", "0.0% to 35.4%", "1"]
    assert "1 infrastructure error is excluded from the rates." in report.stdout
    as_json = (await cli_world.run("bench", "report", "toy", "--json")).json
    assert as_json["benchmark"] == "toy"
    assert [(row["run_id"], row["resolved"], row["counted"], row["errors"]) for row in as_json["runs"]] == [
        ("run-001", 8, 8, 0),
        ("run-002", 0, 7, 1),
    ]
    rows = list(csv.DictReader(io.StringIO((await cli_world.run("bench", "report", "toy", "--csv")).stdout)))
    assert [row["resolved"] for row in rows] == ["8", "0"]

    shown = await cli_world.run("bench", "show", "toy/run-002")
    assert "0 of 7 resolved, 1 error, 0 skipped" in shown.stdout
    assert [line.split()[1:3] for line in shown.stdout.splitlines() if line.startswith("toy-0008")] == [
        ["error", "provider_error"]
    ]
    task = await cli_world.run("bench", "show", "toy/run-002", "toy-0001")
    deviation = "chalk in the place of cheese"
    assert task.stdout.startswith(f"toy-0001: unresolved (tests_failed)\nit is wrong\ndeviation: {deviation}\n")
    validated = await cli_world.run("bench", "validate", "toy", **env)
    assert (validated.code, validated.stdout.count(deviation)) == (0, 8), validated
    assert "claude-sonnet-4-5: 3 requests, 3,300 tokens, $0.0135" in task.stdout
    assert str(cli_world.store("toy/run-002").logs("toy-0001", 1, 1)) in task.stdout
    missing = await cli_world.run("bench", "show", "toy/run-002", "toy-0099")
    assert (missing.code, "has no result of task 'toy-0099'" in missing.stderr) == (2, True)

    compared = await cli_world.run("bench", "compare", "toy/run-001", "toy/run-002")
    assert compared.stdout.splitlines()[-1] == (
        "run-002 is worse than run-001 (0 gained, 7 lost of 7 common tasks; p = 0.016, McNemar's exact test)."
    )
    assert compared.stdout.count("   lost   run-002") == 7
    assert compared.stderr == ""
    as_json = (await cli_world.run("bench", "compare", "toy/run-001", "toy/run-002", "--json")).json
    (pair,) = as_json["comparisons"]
    assert (pair["conclusion"], pair["comparison"]["common"], pair["differences"]) == (-1, 7, [])

    gated = await cli_world.run("bench", "compare", "toy/run-001", "toy/run-002", "--gate", "not worse")
    assert gated.code == 10
    assert gated.stdout.splitlines()[-1] == (
        "Gate: run-002 against run-001: 'not worse' does not hold, shown to be worse."
    )
    turned = await cli_world.run("bench", "compare", "toy/run-002", "toy/run-001", "--gate", "better, lost = 0")
    assert turned.code == 0
    wrong = await cli_world.run("bench", "compare", "toy/run-001", "toy/run-002", "--gate", "best")
    assert (wrong.code, "'best' is not a condition" in wrong.stderr) == (2, True)

    broken = await cli_world.run("bench", "breakdown", "toy/run-001", "toy/run-002")
    assert broken.stdout.splitlines()[0] == "By parity"
    pareto = (await cli_world.run("bench", "pareto", "toy", "--by", "rate", "--by", "cost", "--json")).json
    assert [(run["point"]["run"], run["on_frontier"]) for run in pareto["runs"]] == [
        ("run-001", True),
        ("run-002", False),
    ]

    logs = (await cli_world.run("bench", "report", "toy", "--logs", "--json")).json["log_stats"]
    assert [(one["run"], one["trajectories_read"], one["trajectories_missing"], one["gave_up"]) for one in logs] == [
        ("run-001", 8, 0, 0),
        ("run-002", 7, 0, 0),
    ]

    page = cli_world.folder / "report.html"
    paged = await cli_world.run("bench", "report", "toy", "--html", page, "--markdown")
    assert paged.stdout.startswith("## toy Results\n\n| Run ID |")
    assert page.read_text().count("<svg") == 3
    nowhere = await cli_world.run("bench", "report", "toy", "--html", cli_world.folder / "no" / "report.html")
    assert (nowhere.code, "the page cannot be written" in nowhere.stderr) == (2, True)
    both = await cli_world.run("bench", "report", "toy", "--json", "--csv")
    assert (both.code, "--json and --csv cannot both be printed" in both.stderr) == (2, True)


async def test_differences_between_runs_are_named(cli_world: CliWorld) -> None:
    nop = ("bench", "run", "toy", "--agent", "nop", "--isolation", "off", "--quiet")
    await cli_world.run(*nop)
    await cli_world.run(*nop, "--max-turns", 7, "--limit", 2)
    done = await cli_world.run("bench", "compare", "toy/run-001", "toy/run-002")
    assert done.stderr.splitlines() == [
        "run-001 and run-002 differ: tasks: 3 and 2, 2 in common",
        "run-001 and run-002 differ: max_turns: 100 and 7",
    ]


async def test_a_benchmark_without_runs_is_one_sentence(cli_world: CliWorld) -> None:
    done = await cli_world.run("bench", "report", "toy")
    assert done.code == 2
    assert "there are no runs of 'toy'; make one with `proctor bench run`" in done.stderr


async def test_the_score_on_healthy_tasks_is_reported(cli_world: CliWorld) -> None:
    nop = ("bench", "run", "toy", "--agent", "nop", "--isolation", "off", "--quiet")
    await cli_world.run(*nop)
    unknown = (await cli_world.run("bench", "report", "toy", "--json")).json["runs"][0]
    assert unknown["healthy"] is None
    validated = await cli_world.run("bench", "validate", "toy", "--isolation", "off", "--quiet", TOY_SICK="toy-0002")
    assert validated.code == 20
    known = (await cli_world.run("bench", "report", "toy", "--json")).json["runs"][0]
    assert (known["counted"], known["healthy"]["tasks"], known["healthy"]["counted"]) == (3, 2, 2)
    assert "Healthy tasks" in (await cli_world.run("bench", "report", "toy")).stdout
    without = (await cli_world.run("bench", "report", "toy", "--json", "--no-healthy")).json["runs"][0]
    assert without["healthy"] is None
