import gzip
import zlib

import msgspec
import pytest

from dialect_lab import request_body, request_path
from gateway_lab import provider, upstream, world
from proctor.gateway.content_encoding import unpack
from proctor.gateway.upstream import ProviderAuth


@pytest.mark.parametrize(
    ("packed", "encoding"),
    [(b"abc", "identity"), (gzip.compress(b"abc", mtime=0), "gzip"), (zlib.compress(b"abc"), "deflate")],
)
def test_a_packed_body_is_unpacked(packed: bytes, encoding: str) -> None:
    assert unpack(packed, encoding, limit=3) == b"abc"


@pytest.mark.parametrize(
    ("packed", "encoding"),
    [
        (b"abc", "zstd"),
        (b"abc", "gzip"),
        (gzip.compress(b"abc", mtime=0)[:-9], "gzip"),
        (gzip.compress(b"x" * 10**8, mtime=0), "gzip"),
    ],
)
def test_what_cannot_be_unpacked_or_is_a_bomb_is_refused(packed: bytes, encoding: str) -> None:
    assert unpack(packed, encoding, limit=1000) is None


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
