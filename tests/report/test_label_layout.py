from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.report.label_layout import place_labels

points = st.lists(st.tuples(st.floats(0, 320), st.floats(0, 260), st.text("abcdef", max_size=40)), max_size=30)


@given(points)
@settings(max_examples=80, deadline=None)
def test_no_label_covers_another_or_leaves_the_chart(given: list[tuple[float, float, str]]) -> None:
    labels = [label for _, _, label in given]
    places = place_labels([(x, y) for x, y, _ in given], labels, width=320, height=260)
    boxes = []
    for (x, y, label), place in zip(given, places, strict=True):
        if place is None:
            continue
        assert label
        wide = 7 * len(label)
        left = x + place.dx if place.align == "left" else x + place.dx - wide
        boxes.append((left, y + place.dy - 7, left + wide, y + place.dy + 7))
    for number, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert right <= 320
        assert top >= 0
        assert bottom <= 260
        for other in boxes[number + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_a_label_that_stands_alone_is_right_above_its_point_and_the_first_comes_first() -> None:
    assert place_labels([(100, 100)], ["run"], width=320, height=260) == [(8, -9, "left")]
    first, second = place_labels([(100, 100), (100, 100)], ["run", "run"], width=320, height=260)
    assert first == (8, -9, "left")
    assert second is not None
    assert second != first
    assert place_labels([(300, 100)], ["a long name"], width=320, height=260) == [(-8, -9, "right")]
    assert place_labels([(10, 10)], ["n" * 60], width=320, height=260) == [None]
