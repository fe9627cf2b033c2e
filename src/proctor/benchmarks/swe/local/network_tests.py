"""Labels that need the internet: their instances cannot be graded in environments without network.

Which tests these are was found by running them without a network, with the oracle in place: those of the labels of
every instance of requests that fail. A test of another name, or of the same name in another class, needs none.
"""

from collections.abc import Iterator
from typing import Final

from proctor.benchmarks.swe.rows import SweBenchRow, SweEvoRow

# Until requests had a server of its own for them, its tests asked httpbin.org. Their names are without `test_`.
_HTTPBIN_TEST_CASE: Final = """\
BASICAUTH_TUPLE_HTTP_200_OK_GET DIGESTAUTH_QUOTES_QOP_VALUE DIGESTAUTH_WRONG_HTTP_401_GET DIGEST_AUTH_RETURNS_COOKIE
DIGEST_AUTH_SETS_SESSION_COOKIES DIGEST_HTTP_200_OK_GET DIGEST_STREAM HTTP_200_OK_GET_ALTERNATIVE
HTTP_200_OK_GET_WITH_MIXED_PARAMS HTTP_200_OK_GET_WITH_PARAMS HTTP_200_OK_HEAD HTTP_200_OK_PUT
HTTP_302_ALLOW_REDIRECT_GET POSTBIN_GET_POST_FILES POSTBIN_GET_POST_FILES_WITH_DATA
auth_is_retained_for_redirect_on_host auth_is_stripped_on_redirect_off_host basicauth_with_netrc
cookie_persists_via_api cookie_quote_wrapped cookie_removed_on_expire cookie_sent_on_redirect custom_content_type
decompress_gzip different_encodings_dont_break_post fixes_1329 generic_cookiejar_works
header_remove_is_case_insensitive history_is_always_a_list json_param_post_content_type_works
manual_redirect_with_partial_body_read mixed_case_scheme_acceptable param_cookiejar_works
params_are_merged_case_sensitive prepared_from_session prepared_request_hook pyopenssl_redirect
redirect_with_wrong_gzipped_header request_and_response_are_pickleable request_cookie_overrides_session_cookie
request_cookies_not_persisted request_ok_set requests_history_is_saved requests_in_history_are_not_overridden
response_iter_lines session_pickling set_cookie_on_301 status_raising time_elapsed_blank
unconsumed_session_response_closes_connection unicode_get unicode_header_name unicode_method_name
unicode_method_name_with_request_object unicode_multipart_post uppercase_scheme_redirect
urlencoded_get_query_multivalued_param user_agent_transfers
"""
_HTTPBIN_TEST_SUITE: Final = """\
BASICAUTH_HTTP_200_OK_GET BASICAUTH_TUPLE_HTTP_200_OK_GET GET_no_redirect HEAD_no_redirect HTTP_200_OK_GET
HTTP_200_OK_GET_WITH_MIXED_PARAMS HTTP_200_OK_GET_WITH_PARAMS HTTP_200_OK_HEAD HTTP_200_OK_PUT
HTTP_302_ALLOW_REDIRECT_GET HTTP_302_GET POSTBIN_GET_POST_FILES POSTBIN_GET_POST_FILES_STRINGS
POSTBIN_GET_POST_FILES_WITH_HEADERS POSTBIN_GET_POST_FILES_WITH_PARAMS
accept_objects_with_string_representations_as_urls bytes_files cached_response can_have_none_in_header_values
connection_keepalive_and_close danger_mode_redirects decompress_gzip default_status_raising empty_response
file_post_data head_content httpauth_recursion iter_lines max_redirects multiple_hooks nonurlencoded_post_data
nonurlencoded_postdata nonzero_evaluation post_fields_with_multiple_values_and_files
post_fields_with_multiple_values_and_files_as_tuples prefetch_redirect_bug prefetch_return_response_interaction
redirect_history relative_redirect_history request_ok_set response_has_unicode_url response_sent
session_HTTP_200_OK_GET session_persistent_headers session_persistent_params single_hook status_raising unicode_get
upload_binary_data urlencoded_get_query_multivalued_param urlencoded_post_data urlencoded_post_query_and_data
urlencoded_post_query_multivalued_and_data urlencoded_post_querystring urlencoded_post_querystring_multivalued
user_agent_transfers
"""
_HTTPBIN_TESTS: Final = {
    "RequestsTestCase": frozenset(_HTTPBIN_TEST_CASE.split()),
    "RequestsTestSuite": frozenset(_HTTPBIN_TEST_SUITE.split()),
}
# Tests of requests that connect to an address where nothing replies. Without a route the error is there at once, and
# it is another one than they expect.
_TESTS_NEEDING_A_ROUTE: Final = ("TestTimeout::test_connect_timeout", "TestTimeout::test_total_timeout_connect")
# Sphinx checks links on the web in these, until the version that has a server of its own for them.
_LINKCHECK_TESTS: Final = frozenset(
    f"tests/test_build_linkcheck.py::test_{name}" for name in ("defaults", "defaults_json", "anchors_ignored")
)
_LINKCHECK_SERVER_VERSION: Final = 6


def missing_network(row: SweBenchRow | SweEvoRow) -> str | None:
    """Why the labels of an instance cannot pass without network; None where none is known to need one."""
    labels = (*row.fail_to_pass, *row.pass_to_pass)
    asked = [(label, server) for label in labels for server in _servers(row, label)]
    if asked:
        label, server = asked[0]
        who = f"{label} asks" if len(asked) == 1 else f"{label} and {len(asked) - 1} more of its tests ask"
        return f"{who} {server}, and there is no network"
    lost = next((label for label in labels if any(test in label for test in _TESTS_NEEDING_A_ROUTE)), None)
    return lost and f"{lost} waits for packets that get lost, and where there is no network none are sent"


def _servers(row: SweBenchRow | SweEvoRow, label: str) -> Iterator[str]:
    """The server that a test asks, if it asks one."""
    test = label.partition("[")[0]
    if row.repo == "psf/requests":
        _, _, name = test.partition("::")
        class_name, _, function = name.partition("::")
        if function.removeprefix("test_") in _HTTPBIN_TESTS.get(class_name, ()):
            yield "httpbin.org"
    elif row.repo == "sphinx-doc/sphinx" and test in _LINKCHECK_TESTS:
        major = row.version.partition(".")[0]
        if major.isdigit() and int(major) < _LINKCHECK_SERVER_VERSION:
            yield "www.google.com"
