import io
import os
import tempfile
import unittest
from fractions import Fraction

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


class Base(unittest.TestCase):
    def run_main(self, text, *args):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "book.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            out, err = io.StringIO(), io.StringIO()
            code = main([path, *args], out, err)
            return code, out.getvalue(), err.getvalue().replace(folder + os.sep, "")

    def output(self, text, *args):
        code, out, err = self.run_main(text, *args)
        self.assertEqual((code, err), (0, ""))
        return out

    def sums(self, text, *args):
        """The balance as a list of 'amount account'."""
        return [" ".join(line.split()) for line in self.output(text, "balance", *args).splitlines()]

    def error_line(self, text):
        code, out, err = self.run_main(text, "check")
        self.assertEqual((code, out), (1, ""), err)
        self.assertRegex(err, r"\Abook\.txt:\d+: .+\n\Z")
        return int(err.split(":")[1])


class AsBeforeTest(Base):
    def test_balance(self):
        self.assertEqual(
            self.output(BOOK, "balance", "--depth", "1"),
            "      -54.20 EUR  assets\n       54.10 USD  assets\n       50.00 EUR  equity\n"
            "      -54.10 USD  equity\n        4.20 EUR  expenses\n",
        )

    def test_prefix(self):
        self.assertEqual(self.sums(BOOK, "expenses"), ["4.20 EUR expenses:food:bread"])
        self.assertEqual(self.sums(BOOK, "exp"), [])

    def test_register(self):
        self.assertEqual(
            self.output(BOOK, "register", "assets"),
            "2024-01-05  Bakery                assets:cash                    -4.20 EUR       -4.20 EUR\n"
            "2024-01-07  Exchange              assets:cash                   -50.00 EUR      -54.20 EUR\n"
            "2024-01-07  Exchange              assets:cash                    54.10 USD       54.10 USD\n",
        )

    def test_print(self):
        self.assertEqual(
            self.output(BOOK, "print"),
            "2024-01-05 Bakery\n"
            "    expenses:food:bread             4.20 EUR\n"
            "    assets:cash                    -4.20 EUR\n"
            "\n"
            "2024-01-07 Exchange\n"
            "    assets:cash                   -50.00 EUR\n"
            "    assets:cash                    54.10 USD\n"
            "    equity:exchange                50.00 EUR\n"
            "    equity:exchange               -54.10 USD\n",
        )

    def test_errors(self):
        self.assertEqual(self.error_line("2024-01-01 X\n  a  1 EUR\n  b  -2 EUR\n"), 1)
        self.assertEqual(self.error_line("2024-01-01 X\n  a\n  c 1 EUR\n  b\n"), 4)
        self.assertEqual(self.error_line("2024-01-01 X\n  a  1.234 EUR\n  b\n"), 2)
        self.assertEqual(self.error_line("\n2024-02-30 X\n"), 2)
        self.assertEqual(self.error_line("2024-01-01 X\n\n  a  1 EUR\n"), 3)

    def test_other_things_with_a_slash_are_not_amounts(self):
        for amount in ("1/3 EUR", "x/3", "1/", "/3", "1 / 3", "-1/3", "1/-3", "1.5/3", "1/3/3"):
            self.assertEqual(self.error_line(f"2024-01-01 X\n  a  1 EUR\n  b  {amount}\n"), 3, amount)


class ShareTest(Base):
    def split(self, amount, *shares):
        text = f"2024-03-01 Dinner\n  assets:cash  -{amount} EUR\n" if not amount.startswith("-") else (
            f"2024-03-01 Refund\n  assets:cash  {amount[1:]} EUR\n"
        )
        names = [f"p{number:02d}" for number in range(len(shares))]
        text += "".join(f"  {name}  {share}\n" for name, share in zip(names, shares))
        got = dict((line.split()[2], line.split()[0]) for line in self.sums(text))
        return [got.get(name, "0") for name in names]

    def test_three_friends(self):
        self.assertEqual(self.split("100.00", "1/3", "1/3", "1/3"), ["33.34", "33.33", "33.33"])

    def test_it_divides_evenly(self):
        self.assertEqual(self.split("90.00", "1/3", "1/3", "1/3"), ["30.00"] * 3)
        self.assertEqual(self.split("12.34", "1/1"), ["12.34"])
        self.assertEqual(self.split("12.34", "7/7"), ["12.34"])

    def test_who_lost_most_gets_the_cent(self):
        self.assertEqual(self.split("1.00", "1/6", "1/2", "1/3"), ["0.17", "0.50", "0.33"])
        self.assertEqual(self.split("1.00", "1/3", "1/2", "1/6"), ["0.33", "0.50", "0.17"])
        self.assertEqual(self.split("0.10", "1/7", "2/7", "4/7"), ["0.01", "0.03", "0.06"])

    def test_several_cents_are_left_over(self):
        self.assertEqual(self.split("0.05", "1/7", "1/7", "1/7", "1/7", "3/7"), ["0.01", "0.01", "0.01", "0", "0.02"])
        self.assertEqual(self.split("0.03", "1/4", "1/4", "1/4", "1/4"), ["0.01", "0.01", "0.01", "0"])

    def test_negative_sums_are_split_alike(self):
        self.assertEqual(self.split("-100.00", "1/3", "1/3", "1/3"), ["-33.34", "-33.33", "-33.33"])
        self.assertEqual(self.split("-1.00", "1/6", "1/2", "1/3"), ["-0.17", "-0.50", "-0.33"])

    def test_unequal_shares(self):
        self.assertEqual(self.split("600.00", "1/2", "2/6", "1/6"), ["300.00", "200.00", "100.00"])

    def test_large_sums_stay_exact(self):
        self.assertEqual(
            self.split("90071992547409930.01", "1/3", "2/3"), ["30023997515803310.00", "60047995031606620.01"]
        )

    def test_nothing_is_lost_whatever_the_shares(self):
        for cents in (1, 2, 7, 99, 100, 101, 12345):
            for parts in ((1, 1, 1), (1, 2, 4), (5, 3, 3), (1, 1, 1, 1, 1, 1, 1), (10, 1), (2, 9, 13, 1)):
                shares = [f"{part}/{sum(parts)}" for part in parts]
                got = [int(Fraction(value) * 100) for value in self.split(f"{cents // 100}.{cents % 100:02d}", *shares)]
                self.assertEqual(sum(got), cents, f"{cents} by {parts}")
                for value, part in zip(got, parts):
                    self.assertLess(abs(value - Fraction(cents * part, sum(parts))), 1, f"{cents} by {parts}")

    def test_shares_before_and_between_amounts(self):
        text = "2024-03-01 X\n  a 1/2\n  cash -7.00 EUR\n  b 1/2\n  tip 2.00 EUR\n"
        self.assertEqual(self.sums(text), ["2.50 EUR a", "2.50 EUR b", "-7.00 EUR cash", "2.00 EUR tip"])

    def test_currencies_are_split_one_by_one(self):
        text = "2024-03-01 X\n  cash -1.00 EUR\n  bank 0.02 USD\n  a 1/3\n  b 1/3\n  c 1/3\n"
        self.assertEqual(
            self.sums(text),
            ["0.34 EUR a", "-0.01 USD a", "0.33 EUR b", "-0.01 USD b", "0.02 USD bank", "0.33 EUR c", "-1.00 EUR cash"],
        )

    def test_nothing_is_left_to_share(self):
        text = "2024-03-01 X\n  cash -1.00 EUR\n  bank 1.00 EUR\n  a 1/2\n  b 1/2\n"
        self.assertEqual(self.sums(text), ["1.00 EUR bank", "-1.00 EUR cash"])

    def test_the_same_account_twice(self):
        text = "2024-03-01 X\n  cash -1.00 EUR\n  a 1/3\n  a 1/3\n  b 1/3\n"
        self.assertEqual(self.sums(text), ["0.67 EUR a", "0.33 EUR b", "-1.00 EUR cash"])

    def test_comments_and_other_transactions(self):
        text = "2024-03-01 X\n  cash -1.00 EUR\n  ; who came\n  a 1/2 ; ann\n  b   1/2\n" + "2024-03-02 Y\n  a 5 EUR\n  cash\n"
        self.assertEqual(self.sums(text), ["5.50 EUR a", "0.50 EUR b", "-6.00 EUR cash"])

    def test_print_shows_amounts(self):
        text = "2024-03-01 Dinner\n  assets:cash -0.01 EUR\n  expenses:ann 1/2\n  expenses:bob 1/2\n"
        self.assertEqual(
            self.output(text, "print"),
            "2024-03-01 Dinner\n"
            "    assets:cash                    -0.01 EUR\n"
            "    expenses:ann                    0.01 EUR\n",
        )

    def test_register(self):
        text = "2024-03-01 Dinner\n  cash -0.30 EUR\n  a 1/3\n  b 2/3\n"
        self.assertEqual(
            self.output(text, "register", "b"),
            "2024-03-01  Dinner                b                               0.20 EUR        0.20 EUR\n",
        )


class ShareErrorTest(Base):
    def test_shares_that_do_not_add_up(self):
        for shares in (("1/3", "1/3"), ("1/2", "1/2", "1/100"), ("1/3",), ("333/1000", "333/1000", "333/1000")):
            text = "2024-01-01 ok\n  a 1 EUR\n  b\n\n2024-01-02 X\n  cash -1 EUR\n"
            text += "".join(f"  a {share}\n" for share in shares)
            self.assertEqual(self.error_line(text), 5, shares)

    def test_also_if_nothing_is_open(self):
        self.assertEqual(self.error_line("2024-01-02 X\n  cash -1 EUR\n  bank 1 EUR\n  a 1/2\n"), 1)

    def test_next_to_an_empty_posting(self):
        self.assertEqual(self.error_line("2024-01-02 X\n  cash -1 EUR\n  a 1/2\n  b\n  c 1/2\n"), 4)
        self.assertEqual(self.error_line("2024-01-02 X\n  b\n  cash -1 EUR\n  a 1/1\n"), 2)

    def test_not_a_share(self):
        for share in ("0/3", "4/3", "1/0", "0/0", "00/1"):
            self.assertEqual(self.error_line(f"2024-01-02 X\n  cash -1 EUR\n  a {share}\n"), 3, share)


if __name__ == "__main__":
    unittest.main()
