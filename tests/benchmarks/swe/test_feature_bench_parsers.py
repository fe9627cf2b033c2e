"""FeatureBench's reading of pytest's output: real logs of odd tests, beside what its own parsers make of them.

`official.json` holds the results of the official parsers at 445dcba, and the rates of its report.
"""

import json
from typing import Any

import pytest

from paths import sample_data
from proctor.benchmarks.swe.official_rules import pass_rate
from proctor.benchmarks.swe.parsers import find_feature_parser
from proctor.benchmarks.swe.parsers.pytest_lines import pytest_summary

OFFICIAL: dict[str, dict[str, Any]] = json.loads(sample_data("feature_bench", "official.json").read_text())


def _log(name: str) -> str:
    return sample_data("feature_bench", "logs", name).read_bytes().decode(errors="replace")


@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_a_real_log_is_read_as_the_official_parsers_read_it(name: str) -> None:
    log = _log(name)
    for repo, official in OFFICIAL[name].items():
        statuses = find_feature_parser(repo)(log)
        assert statuses == official["statuses"], repo
        assert pass_rate(statuses) == official["pass_rate"], repo


def test_every_sample_has_its_official_result() -> None:
    assert {path.name for path in sample_data("feature_bench", "logs").iterdir()} == set(OFFICIAL)


def test_captured_log_lines_are_no_tests() -> None:
    statuses = find_feature_parser("any/other")(_log("pytest-8.ids.log"))
    assert pytest_summary(_log("pytest-8.ids.log"))["store.disk:test_ids.py:12"] == "ERROR"
    assert not [name for name in statuses if "::" not in name and statuses[name] != "SKIPPED"]


def test_ids_keep_their_spaces_up_to_a_dash() -> None:
    lines = (
        "PASSED a.py::t[x y]",
        "FAILED a.py::t[x z] - no - never",
        "PASSED a.py::t[p - q]",
        "=== 1 ===",
        "PASSED u",
    )
    log = "\n".join(("= short test summary info =", *lines))
    assert find_feature_parser("any/other")(log) == {
        "a.py::t[x y]": "PASSED",
        "a.py::t[x z]": "FAILED",
        "a.py::t[p": "PASSED",
    }


def test_failed_subtests_count_for_meson_alone_and_only_in_the_official_forms() -> None:
    lines = ["SUBFAILED", "SUBFAILED(<subtest>)", "SUBFAILED(n=1)", "SUBFAILED[message]"]
    log = "\n".join(["short test summary info", *(f"{word} a.py::t - no" for word in lines), "PASSED a.py::t"])
    assert find_feature_parser("any/other")(log) == {"a.py::t": "PASSED"}
    assert find_feature_parser("mesonbuild/meson")(log) == {
        "a.py::t[1]": "FAILED",
        "a.py::t[2]": "FAILED",
        "a.py::t": "PASSED",
    }
