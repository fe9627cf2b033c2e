"""Which instances need a service on the internet, and which of the same projects do not.

The instances and their counts are those of the labels of the data set that fail, with the oracle in place, where there
is no network.
"""

import pytest

from proctor.benchmarks.swe.local.network_tests import missing_network
from proctor.benchmarks.swe.rows import SweBenchRow, SweEvoRow


def _row(repo: str, *labels: str, version: str = "") -> SweBenchRow:
    return SweBenchRow(
        instance_id="acme__blue-1",
        repo=repo,
        base_commit="",
        patch="",
        test_patch="",
        problem_statement="",
        fail_to_pass=labels[:1],
        pass_to_pass=labels[1:],
        image="",
        version=version,
    )


def _case(*names: str, file: str = "test_requests.py", group: str = "RequestsTestCase") -> tuple[str, ...]:
    return tuple(f"{file}::{group}::test_{name}" for name in names)


def test_old_versions_of_requests_ask_httpbin() -> None:
    labels = _case("basic_building", "DIGEST_HTTP_200_OK_GET", "unicode_get[a]", "POSTBIN_GET_POST_FILES")
    assert missing_network(_row("psf/requests", *labels)) == (
        "test_requests.py::RequestsTestCase::test_DIGEST_HTTP_200_OK_GET and 2 more of its tests ask httpbin.org,"
        " and there is no network"
    )
    oldest = _case("HTTP_302_GET", file="tests/test_requests.py", group="RequestsTestSuite")
    assert missing_network(_row("psf/requests", *oldest)) == f"{oldest[0]} asks httpbin.org, and there is no network"
    evo = SweEvoRow(**{name: getattr(_row("psf/requests", *labels), name) for name in SweEvoRow.__struct_fields__[:9]})
    assert "httpbin.org" in str(missing_network(evo))


@pytest.mark.parametrize(
    "labels",
    [
        _case("no_content_length", "basic_building", "entry_points", "invalid_url", "links"),  # requests-1142
        _case("binary_put", "HTTP_200_OK_GET_ALTERNATIVE", group="TestRequests"),  # with a server of its own
        ("tests/test_lowlevel.py::test_chunked_upload", "tests/test_utils.py::TestAddressInNetwork::test_valid"),
    ],
)
def test_tests_without_network_requests_can_run(labels: tuple[str, ...]) -> None:
    assert missing_network(_row("psf/requests", *labels)) is None


def test_the_same_test_names_in_other_projects_can_run() -> None:
    assert missing_network(_row("acme/blue", *_case("DIGEST_HTTP_200_OK_GET"))) is None


def test_sphinx_checks_links_on_the_web_until_it_has_a_server_of_its_own() -> None:
    label = "tests/test_build_linkcheck.py::test_defaults_json"
    assert missing_network(_row("sphinx-doc/sphinx", label, version="3.3")) == (
        f"{label} asks www.google.com, and there is no network"
    )
    assert missing_network(_row("sphinx-doc/sphinx", label, version="7.1")) is None
    auth = "tests/test_build_linkcheck.py::test_auth_header_no_match"
    assert missing_network(_row("sphinx-doc/sphinx", auth, version="3.3")) is None


def test_tests_that_wait_for_lost_packets_need_a_route() -> None:
    label = "tests/test_requests.py::TestTimeout::test_connect_timeout[timeout0]"
    assert str(missing_network(_row("psf/requests", label))).startswith(f"{label} waits for packets that get lost")
