import gzip
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialect_lab import request_body, request_path
from gateway_lab import provider, upstream, world
from proctor.gateway.content_encoding import _zstd_module, unpack
from proctor.gateway.upstream import ProviderAuth


@pytest.mark.parametrize(
    ("packed", "encoding"),
    [
        (b"abc", "identity"),
        (gzip.compress(b"abc", mtime=0), "gzip"),
        (gzip.compress(b"a", mtime=0) + gzip.compress(b"bc", mtime=0), "gzip"),
        (zlib.compress(b"abc"), "deflate"),
        (zlib.compress(b"abc")[2:-4], "deflate"),
    ],
)
def test_a_packed_body_is_unpacked(packed: bytes, encoding: str) -> None:
    assert unpack(packed, encoding, limit=3) == b"abc"


@pytest.mark.parametrize(
    ("packed", "encoding"),
    [
        (b"abc", "zstd"),
        (b"abc", "gzip"),
        (gzip.compress(b"abc", mtime=0)[:-9], "gzip"),
    ],
)
def test_a_body_that_cannot_be_decoded_is_refused(packed: bytes, encoding: str) -> None:
    assert unpack(packed, encoding, limit=1000) is None


@given(st.binary(max_size=2000), st.integers(0, 2000))
def test_a_body_comes_out_whole_or_not_at_all(data: bytes, limit: int) -> None:
    for encoding, packed in (("gzip", gzip.compress(data, mtime=0)), ("deflate", zlib.compress(data))):
        assert unpack(packed, encoding, limit=limit) == (data if len(data) <= limit else None)
        assert unpack(packed[:-1], encoding, limit=limit) is None


def test_zstd_is_unpacked_where_python_can_and_refused_elsewhere() -> None:
    zstd = _zstd_module()
    packed = b"(\xb5/\xfd \x03\x19\x00\x00abc" if zstd is None else zstd.compress(b"abc")
    assert unpack(packed, "zstd", limit=3) == (None if zstd is None else b"abc")
    assert unpack(packed, "zstd", limit=2) is None
    assert unpack(packed[:-2], "zstd", limit=3) is None


async def test_a_token_count_that_is_packed_is_forwarded_unpacked() -> None:
    data = msgspec.json.encode(request_body("messages"))
    async with provider() as source, world(upstream(source)) as lab:
        url = lab.agent.base + "/v1/messages/count_tokens"
        body, headers = gzip.compress(data, mtime=0), {"content-encoding": "gzip"}
        async with lab.agent.http.post(url, data=body, headers=headers) as response:
            assert response.status == 200
        assert source.bodies == [data]


def test_a_bomb_is_refused() -> None:
    assert unpack(gzip.compress(b"x" * 10**8, compresslevel=1, mtime=0), "gzip", limit=1000) is None


async def test_packed_requests_are_metered_and_forwarded_unpacked() -> None:
    data = msgspec.json.encode(request_body("messages"))
    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
        url = lab.agent.base + request_path("messages")
        for encoding, body, status in (("gzip", gzip.compress(data, mtime=0), 200), ("zstd", b"packed", 400)):
            async with lab.agent.http.post(url, data=body, headers={"content-encoding": encoding}) as response:
                assert response.status == status
        assert source.bodies == [data]
        assert "content-encoding" not in source.requests[0].headers
        assert lab.session.usage.requests == 1
