import unittest

from timespan import parse, render


class TimespanTest(unittest.TestCase):
    def test_single_parts(self):
        self.assertEqual(parse("2h"), 7200000)
        self.assertEqual(parse("90s"), 90000)
        self.assertEqual(parse("1.5m"), 90000)

    def test_several_parts(self):
        self.assertEqual(parse("1h30m"), 5400000)
        self.assertEqual(parse("-1h 30m"), -5400000)

    def test_render(self):
        self.assertEqual(render(5400000), "1h 30m")
        self.assertEqual(render(1001), "1s 1ms")
        self.assertEqual(render(0), "0")
