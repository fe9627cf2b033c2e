import io
import unittest

from gridtext import table
from gridtext.__main__ import main


class TableTest(unittest.TestCase):
    def test_alignment(self):
        text = table([["name", "price"], ["apple", "1.20"], ["melon", "13.00"]], align="lr")
        self.assertEqual(text, "name   price\n-----  -----\napple   1.20\nmelon  13.00\n")

    def test_cut(self):
        self.assertEqual(table([["abcdef"], ["abc"]], header=False, limit=4), "abc…\nabc\n")

    def test_command(self):
        out = io.StringIO()
        main(["--no-header"], io.StringIO("a,b\nccc,d\n"), out)
        self.assertEqual(out.getvalue(), "a    b\nccc  d\n")
