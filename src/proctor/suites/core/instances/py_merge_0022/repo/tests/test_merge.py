import unittest

from braid import merge


class MergeTest(unittest.TestCase):
    BASE = "1\n2\n3\n4\n5\n"

    def test_one_side(self):
        self.assertEqual(merge(self.BASE, "1\n2\nx\n4\n5\n", self.BASE).text, "1\n2\nx\n4\n5\n")
        self.assertEqual(merge(self.BASE, self.BASE, "1\n5\n").text, "1\n5\n")

    def test_both_sides(self):
        result = merge(self.BASE, "1\nx\n3\n4\n5\n", "1\n2\n3\n4\ny\n")
        self.assertEqual((result.text, result.conflicts), ("1\nx\n3\n4\ny\n", 0))

    def test_a_conflict(self):
        result = merge(self.BASE, "1\n2\nx\n4\n5\n", "1\n2\ny\n4\n5\n")
        self.assertEqual(result.text, "1\n2\n<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n4\n5\n")
        self.assertEqual(result.conflicts, 1)
