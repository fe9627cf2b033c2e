import unittest

from spans import Room, SpanSet


class SpanSetTest(unittest.TestCase):
    def test_add_and_look_up(self):
        s = SpanSet([(0, 3), (10, 12)])
        self.assertEqual(s.spans(), [(0, 3), (10, 12)])
        self.assertTrue(2 in s and 10 in s)
        self.assertFalse(3 in s or 12 in s)

    def test_growing_a_span(self):
        s = SpanSet([(0, 3)])
        s.add(2, 8)
        self.assertEqual(s.spans(), [(0, 8)])

    def test_discard_whole_spans(self):
        s = SpanSet([(0, 3), (5, 6), (9, 12)])
        s.discard(4, 20)
        self.assertEqual(s.spans(), [(0, 3)])


class RoomTest(unittest.TestCase):
    def test_book(self):
        room = Room()
        self.assertTrue(room.book(480, 540))
        self.assertFalse(room.book(500, 520))
