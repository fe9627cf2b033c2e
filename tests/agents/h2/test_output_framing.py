"""Files in the output of one command are separated again."""

from hypothesis import given
from hypothesis import strategies as st

from proctor.agents.h2.output_framing import FrameReader, new_mark

NAMES = st.text("abc/.-", min_size=1, max_size=8)
CONTENT = st.lists(st.sampled_from([b"x", b"\n", b"\n\n", b"yy", b" ", b"==", b"\r\n"]), max_size=12).map(b"".join)


@given(st.lists(st.tuples(NAMES, CONTENT), max_size=5), st.integers(1, 9))
def test_frames_give_back_what_was_framed_however_it_is_cut(files: list[tuple[str, bytes]], size: int) -> None:
    mark = new_mark()
    stream = b"".join(f"\n{mark} file {name}\n".encode() + data for name, data in files) + f"\n{mark} end -\n".encode()
    found: list[tuple[str, bytes]] = []

    def take(kind: str, name: str, data: bytes) -> None:
        if found and found[-1][0] == name and kind == "file" and not fresh[0]:
            found[-1] = (name, found[-1][1] + data)
        else:
            found.append((name, data))
        fresh[0] = False

    fresh = [True]
    frames = FrameReader(mark, take)
    for start in range(0, len(stream), size):
        frames.feed(stream[start : start + size])
    assert frames.complete
    # Neighbours of one name run together here; the driver has no two files of one name.
    if len({name for name, _ in files}) == len(files):
        assert found == files
