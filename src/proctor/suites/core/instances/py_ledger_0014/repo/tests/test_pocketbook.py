import io
import os
import tempfile
import unittest

from pocketbook.cli import main

BOOK = """\
; our book
2024-01-05 Bakery
    expenses:food:bread         4.20 EUR   ; still warm
    assets:cash

2024-01-07 Exchange
    assets:cash    -50.00 EUR
    assets:cash     54.10 USD
    equity:exchange
"""


class PocketbookTest(unittest.TestCase):
    def run_main(self, text, *args):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "book.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            out, err = io.StringIO(), io.StringIO()
            code = main([path, *args], out, err)
            return code, out.getvalue(), err.getvalue().replace(folder + os.sep, "")

    def test_balance(self):
        code, out, err = self.run_main(BOOK, "balance", "--depth", "1")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(
            out,
            "      -54.20 EUR  assets\n       54.10 USD  assets\n       50.00 EUR  equity\n"
            "      -54.10 USD  equity\n        4.20 EUR  expenses\n",
        )

    def test_does_not_add_up(self):
        code, _, err = self.run_main("2024-01-01 X\n  a  1 EUR\n  b  -2 EUR\n", "check")
        self.assertEqual((code, err), (1, "book.txt:1: does not add up: -1.00 EUR too much\n"))
