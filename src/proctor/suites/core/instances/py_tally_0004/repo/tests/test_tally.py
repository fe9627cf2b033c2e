import unittest

from tally import Groups, Tally


class TallyTest(unittest.TestCase):
    def test_small_numbers(self):
        tally = Tally([2, 4, 4, 4, 5, 5, 7, 9])
        self.assertEqual(tally.count, 8)
        self.assertAlmostEqual(tally.mean, 5)
        self.assertAlmostEqual(tally.variance(population=True), 4)
        self.assertEqual((tally.minimum, tally.maximum), (2, 9))

    def test_nothing(self):
        self.assertIsNone(Tally().mean)
        self.assertIsNone(Tally([1]).variance())

    def test_groups(self):
        groups = Groups()
        groups.push("a", 1)
        groups.push("b", 3)
        self.assertAlmostEqual(groups.total().mean, 2)
