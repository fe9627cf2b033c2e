import random

from hypothesis import given
from hypothesis import strategies as st

from proctor.environments.output_buffer import HeadTailBuffer


@given(st.lists(st.binary(max_size=30)), st.integers(0, 60))
def test_the_two_ends_are_kept_however_the_stream_is_cut(pieces: list[bytes], limit: int) -> None:
    kept = HeadTailBuffer(limit)
    for piece in pieces:
        kept.add(piece)
    whole = b"".join(pieces)
    assert kept.truncated == (len(whole) > limit)
    if not kept.truncated:
        assert kept.value() == whole
        return
    head, tail = limit - limit // 2, limit // 2
    left_out = b"\n[%d bytes left out]\n" % (len(whole) - limit)
    assert kept.value() == whole[:head] + left_out + whole[len(whole) - tail :]


def test_an_endless_stream_does_not_grow() -> None:
    kept = HeadTailBuffer(1000)
    generator = random.Random(1)
    for _ in range(20_000):
        kept.add(b"x" * generator.randrange(200))
        assert kept._tail_size <= 500 + 200
        assert len(kept._head) <= 500
