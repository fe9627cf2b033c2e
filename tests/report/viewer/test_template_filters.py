from proctor.report.viewer.template_filters import since_start, url


def test_the_time_since_the_start_is_empty_where_it_is_unknown() -> None:
    assert since_start("2026-01-02T03:04:07Z", "2026-01-02T03:04:05+00:00") == "+2.0s"
    assert since_start("2026-01-02T03:04:07", "2026-01-02T03:04:05+00:00") == ""


def test_a_url_leaves_out_empty_parameters_and_quotes_the_others() -> None:
    assert url("/x", a="1&2", b="", c=None, d=False, e=True, path="a/b") == "/x?a=1%262&e=1&path=a%2Fb"
    assert url("/x") == "/x"
