import unittest

from spans import Room, SpanSet


class AddTest(unittest.TestCase):
    def test_apart(self):
        s = SpanSet([(10, 12), (0, 3), (5, 6)])
        self.assertEqual(s.spans(), [(0, 3), (5, 6), (10, 12)])

    def test_growing_a_span_at_either_end(self):
        s = SpanSet([(5, 8)])
        s.add(7, 10)
        self.assertEqual(s.spans(), [(5, 10)])
        s.add(2, 6)
        self.assertEqual(s.spans(), [(2, 10)])
        s.add(3, 4)
        self.assertEqual(s.spans(), [(2, 10)])

    def test_swallowing_several(self):
        s = SpanSet([(0, 2), (4, 6), (8, 10)])
        s.add(1, 9)
        self.assertEqual(s.spans(), [(0, 10)])
        s = SpanSet([(0, 2), (4, 6), (8, 10), (12, 14)])
        s.add(3, 11)
        self.assertEqual(s.spans(), [(0, 2), (3, 11), (12, 14)])

    def test_touching_spans_become_one(self):
        self.assertEqual(SpanSet([(0, 5), (5, 9)]).spans(), [(0, 9)])
        self.assertEqual(SpanSet([(5, 9), (0, 5)]).spans(), [(0, 9)])
        s = SpanSet([(0, 2), (4, 6)])
        s.add(2, 4)
        self.assertEqual(s.spans(), [(0, 6)])

    def test_growing_until_it_touches_the_next(self):
        s = SpanSet([(0, 2), (4, 6)])
        s.add(1, 4)
        self.assertEqual(s.spans(), [(0, 6)])

    def test_nothing_is_nothing(self):
        s = SpanSet([(0, 2), (4, 6)])
        s.add(3, 3)
        s.add(2, 2)
        self.assertEqual(s.spans(), [(0, 2), (4, 6)])
        self.assertFalse(SpanSet([(1, 1)]))

    def test_backwards_is_refused(self):
        with self.assertRaises(ValueError):
            SpanSet().add(3, 2)
        with self.assertRaises(ValueError):
            SpanSet([(0, 9)]).discard(3, 2)


class DiscardTest(unittest.TestCase):
    def test_a_hole(self):
        s = SpanSet([(0, 10)])
        s.discard(5, 7)
        self.assertEqual(s.spans(), [(0, 5), (7, 10)])
        self.assertNotIn(6, s)
        self.assertIn(7, s)

    def test_ends(self):
        s = SpanSet([(0, 10), (20, 30)])
        s.discard(8, 22)
        self.assertEqual(s.spans(), [(0, 8), (22, 30)])
        s.discard(0, 1)
        self.assertEqual(s.spans(), [(1, 8), (22, 30)])

    def test_whole_spans(self):
        s = SpanSet([(0, 3), (5, 6), (9, 12)])
        s.discard(5, 12)
        self.assertEqual(s.spans(), [(0, 3)])

    def test_what_is_not_there(self):
        s = SpanSet([(0, 3), (5, 6)])
        s.discard(3, 5)
        s.discard(6, 100)
        s.discard(1, 1)
        self.assertEqual(s.spans(), [(0, 3), (5, 6)])

    def test_two_holes(self):
        s = SpanSet([(0, 100)])
        s.discard(10, 20)
        s.discard(50, 60)
        self.assertEqual(s.spans(), [(0, 10), (20, 50), (60, 100)])
        self.assertEqual(s.total(), 80)


class AlgebraTest(unittest.TestCase):
    def test_gaps(self):
        s = SpanSet([(0, 5), (7, 20)])
        self.assertEqual(s.gaps(0, 30), [(5, 7), (20, 30)])
        self.assertEqual(s.gaps(-3, 1), [(-3, 0)])
        self.assertEqual(s.gaps(8, 12), [])

    def test_operators(self):
        a, b = SpanSet([(0, 10), (20, 30)]), SpanSet([(5, 25), (40, 50)])
        self.assertEqual((a | b).spans(), [(0, 30), (40, 50)])
        self.assertEqual((a & b).spans(), [(5, 10), (20, 25)])
        self.assertEqual((a - b).spans(), [(0, 5), (25, 30)])
        self.assertEqual(a.spans(), [(0, 10), (20, 30)])

    def test_long_histories_agree_with_a_plain_set(self):
        seed, s, model = 11, SpanSet(), set()
        for step in range(1500):
            seed = (seed * 1103515245 + 12345) % 2**31
            start, length = (seed >> 8) % 60, (seed >> 16) % 13
            if (seed >> 24) % 2:
                s.add(start, start + length)
                model.update(range(start, start + length))
            else:
                s.discard(start, start + length)
                model.difference_update(range(start, start + length))
            numbers = [n for a, b in s.spans() for n in range(a, b)]
            self.assertEqual(numbers, sorted(model), f"step {step}")
            for (_, end), (begin, _) in zip(s.spans(), s.spans()[1:]):
                self.assertLess(end, begin)
            self.assertEqual(s.total(), len(model))
            self.assertEqual([n in s for n in range(75)], [n in model for n in range(75)])


class RoomTest(unittest.TestCase):
    def test_book(self):
        room = Room()
        self.assertTrue(room.book(480, 540))
        self.assertFalse(room.book(500, 520))
        self.assertTrue(room.book(540, 600))
        self.assertFalse(room.book(1070, 1090))

    def test_lunch(self):
        room = Room()
        room.close(720, 780)
        self.assertEqual(room.free(), [(480, 720), (780, 1080)])
        self.assertFalse(room.book(700, 730))
        self.assertTrue(room.book(780, 1080))

    def test_a_morning_of_changes(self):
        room = Room()
        self.assertTrue(room.book(540, 600))
        self.assertTrue(room.book(660, 720))
        self.assertEqual(room.free(), [(480, 540), (600, 660), (720, 1080)])
        self.assertTrue(room.book(600, 660))
        self.assertEqual(room.free(), [(480, 540), (720, 1080)])
        room.cancel(570, 690)
        self.assertEqual(room.free(), [(480, 540), (570, 690), (720, 1080)])
        self.assertTrue(room.book(570, 690))
        self.assertFalse(room.book(600, 630))


if __name__ == "__main__":
    unittest.main()
