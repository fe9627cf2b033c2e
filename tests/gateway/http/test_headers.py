import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.gateway.http.headers import add_header, request_head, response_head


def test_request_and_response_heads_are_written() -> None:
    assert (
        request_head("POST", "/x?y", {"host": "h", "a": "b: c"}) == b"POST /x?y HTTP/1.1\r\nhost: h\r\na: b: c\r\n\r\n"
    )
    assert response_head(200, {"a": "b"}) == b"HTTP/1.1 200 OK\r\na: b\r\n\r\n"
    assert response_head(529, {}) == b"HTTP/1.1 529 \r\n\r\n"


@pytest.mark.parametrize("bad", ["a\r\nb: c", "a\nb", "a\rb", "a\0b"])
def test_no_value_adds_a_line(bad: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        response_head(200, {"x": bad})
    with pytest.raises(ValueError, match="line break"):
        response_head(200, {bad: "x"})
    with pytest.raises(ValueError, match="line break"):
        request_head("GET", bad, {})


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=10), max_size=4))
def test_a_head_has_as_many_lines_as_headers_or_is_refused(headers: dict[str, str]) -> None:
    try:
        head = response_head(200, headers)
    except (ValueError, UnicodeEncodeError):
        return
    assert head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") == len(headers) + 2


def test_a_header_that_comes_twice_is_one_list() -> None:
    headers: dict[str, str] = {}
    for name, value in ((b"Accept", b"a"), (b"X", b"1"), (b"ACCEPT", b"b")):
        add_header(headers, name, value)
    assert headers == {"accept": "a, b", "x": "1"}
