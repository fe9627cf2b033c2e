"""`bench list --runnable`, and `bench fetch` where nothing can be reached."""

import json
import socket
from pathlib import Path

from documents import checked
from suite_world import make_instance, make_suite, proctor


def test_a_suite_s_tasks_run_here(tmp_path: Path) -> None:
    make_instance(tmp_path)
    done = proctor(tmp_path, "bench", "list", "--suite", str(make_suite(tmp_path)), "--runnable", "--json")
    assert done.code == 0, done.stderr
    listed = checked(done.stdout)
    assert listed["runner"] == "local"
    assert [(task["runnable"], task["reason"]) for task in listed["tasks"]] == [(True, None)]


def test_tasks_that_cannot_be_run_here_are_listed_with_the_reason(tmp_path: Path) -> None:
    row = {
        "instance_id": "acme__blue-1",
        "repo": "acme/blue",
        "base_commit": "1" * 40,
        "patch": "x",
        "problem_statement": "x",
        "FAIL_TO_PASS": ["t"],
        "eval_script": "x",
        "log_parser": "parse_log_flask",
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    fetched = proctor(tmp_path, "bench", "fetch", "swe_bench_verified", "--from", str(tmp_path / "rows.jsonl"))
    assert fetched.code == 0, fetched.stderr
    done = proctor(tmp_path, "bench", "list", "swe_bench_verified", "--runnable")
    assert done.code == 0, done.stderr
    assert "its pins are not in the data" in done.stdout
    assert "0 of 1 tasks can be run on this machine with --runner local" in done.stdout


def test_rows_of_pro_without_their_scripts_are_one_line_wherever_they_are_named(tmp_path: Path) -> None:
    row = {
        "repo": "acme/blue",
        "base_commit": "1" * 40,
        "patch": "x",
        "test_patch": "x",
        "problem_statement": "x",
        "requirements": "",
        "interface": "",
        "fail_to_pass": "['t']",
        "pass_to_pass": "[]",
        "selected_test_files_to_run": "['t.py']",
        "before_repo_set_cmd": "git status",
        "dockerhub_tag": "acme.blue",
        "repo_language": "python",
    }
    rows = [json.dumps({**row, "instance_id": f"instance_acme__blue-{number:02}"}) for number in range(80)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    fetched = proctor(tmp_path, "bench", "fetch", "swe_bench_pro", "--from", tmp_path / "rows.jsonl")
    assert fetched.code == 0, fetched.stderr
    chosen = ("swe_bench_pro", "--runner", "docker", "--all")
    for said in (
        fetched.stderr,
        proctor(tmp_path, "bench", "list", *chosen).stderr,
        proctor(tmp_path, "bench", "validate", *chosen, "--quiet").stdout,
        proctor(tmp_path, "bench", "eval", *chosen, "--oracle", "--quiet").stdout,
        proctor(tmp_path, "bench", "run", *chosen, "--agent", "nop").stderr,
    ):
        assert said.count("instance_acme") == said.count("run_script.sh and parser.py are missing") == 1, said
        assert "80 tasks (instance_acme__blue-00, …)" in said


def test_fetching_without_a_network_is_one_sentence_and_exit_code_12(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        endpoint = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        for name, where in (
            ("swe_bench_verified", "huggingface.co/datasets/SWE-bench/SWE-bench_Verified"),
            ("commit0", "huggingface.co/datasets/wentingzhao/commit0_combined"),
            ("setupbench", "https://github.com/microsoft/SetupBench"),
        ):
            unreachable = {"HF_ENDPOINT": endpoint, "HTTPS_PROXY": endpoint, "https_proxy": endpoint}
            done = proctor(tmp_path, "bench", "fetch", name, "--quiet", variables=unreachable)
            assert done.code == 12, done.stderr
            (line,) = done.stderr.splitlines()
            assert line.startswith(f"proctor: {where}: cannot be fetched: "), line
            assert line.endswith("check the network, or bring a copy here and give it with --from PATH")


PLUGIN = """
import urllib.request
from proctor.core.benchmark import BenchmarkSource

class Source(BenchmarkSource):
    splits = ("main", "broken")

    def open(self, split):
        raise NotImplementedError

    async def fetch(self, split, origin, log):
        if split == "broken":
            return {}["rows"]
        urllib.request.urlopen("http://127.0.0.1:1/rows")

SOURCE = Source()
"""


def test_a_plugin_that_cannot_reach_its_data_is_reported_alike_and_its_mistakes_are_not(tmp_path: Path) -> None:
    package = tmp_path / "plugins/mine-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[proctor.benchmarks]\nmine = mine:SOURCE\n")
    (tmp_path / "plugins/mine.py").write_text(PLUGIN)
    env = {"PYTHONPATH": str(tmp_path / "plugins")}
    offline = proctor(tmp_path, "bench", "fetch", "mine", variables=env)
    assert offline.code == 12, offline.stderr
    assert offline.stderr.startswith("proctor: mine: cannot be fetched: ")
    assert proctor(tmp_path, "bench", "fetch", "mine", "--split", "broken", variables=env).code == 1
