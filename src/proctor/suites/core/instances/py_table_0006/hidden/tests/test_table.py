import contextlib
import io
import re
import unittest

from gridtext import table
from gridtext.__main__ import main

RED, BOLD, OFF = "\x1b[31m", "\x1b[1;38;5;196m", "\x1b[0m"


class PlainTest(unittest.TestCase):
    def test_alignment(self):
        text = table([["name", "price"], ["apple", "1.20"], ["melon", "13.00"]], align="lr")
        self.assertEqual(text, "name   price\n-----  -----\napple   1.20\nmelon  13.00\n")

    def test_short_rows_and_line_breaks(self):
        text = table([["a", "b", "c"], ["x\ty"], [1, "2\n3"]], header=False)
        self.assertEqual(text, "a    b    c\nx y\n1    2 3\n")

    def test_cut(self):
        self.assertEqual(table([["abcdef"], ["abcd"]], header=False, limit=4), "abc…\nabcd\n")
        self.assertEqual(table([["abcdef"]], header=False, limit=1), "…\n")

    def test_the_ends_of_lines_are_clean(self):
        text = table([["a", "long header"], ["b", "x"], ["c", ""]], align="lc")
        for line in text.splitlines():
            self.assertEqual(line, line.rstrip())

    def test_empty(self):
        self.assertEqual(table([]), "")

    def test_bad_options(self):
        with self.assertRaises(ValueError):
            table([["a"]], align="x")
        with self.assertRaises(ValueError):
            table([["a"]], limit=0)

    def test_command(self):
        out = io.StringIO()
        self.assertEqual(main(["--no-header", "--max", "3"], io.StringIO("a,b\ncccc,d\n"), out), 0)
        self.assertEqual(out.getvalue(), "a    b\ncc…  d\n")

    def test_command_with_a_bad_option(self):
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            with self.assertRaises(SystemExit) as stop:
                main(["--align", "q"], io.StringIO("a\n"), io.StringIO())
        self.assertEqual(stop.exception.code, 2)
        self.assertIn("q", errors.getvalue())


class CentreTest(unittest.TestCase):
    def test_the_odd_blank_goes_to_the_right(self):
        for size in range(2, 9):
            for length in range(1, size):
                wide = "w" * size
                text = table([[wide, "|"], ["t" * length, "|"]], header=False, align="c")
                left = (size - length) // 2
                expected = " " * left + "t" * length + " " * (size - length - left)
                self.assertEqual(text, f"{wide}  |\n{expected}  |\n")


class WideTest(unittest.TestCase):
    def test_contributors(self):
        rows = [["name", "commits"], ["Ada", "12"], ["山田太郎", "7"], ["Jose\u0301", "31"]]
        self.assertEqual(
            table(rows, align="lr"),
            "name      commits\n"
            "--------  -------\n"
            "Ada            12\n"
            "山田太郎        7\n"
            "Jose\u0301           31\n",
        )

    def test_fullwidth_and_hangul(self):
        text = table([["ＡＢ", "|"], ["한국어", "|"], ["abcdef", "|"]], header=False)
        self.assertEqual(text, "ＡＢ    |\n한국어  |\nabcdef  |\n")

    def test_half_width_katakana_is_narrow(self):
        self.assertEqual(table([["ｱｲ", "|"], ["ab", "|"]], header=False), "ｱｲ  |\nab  |\n")

    def test_centre_and_right(self):
        text = table([["wwwwwww", "wwwww"], ["山田", "山"]], header=False, align="cr")
        self.assertEqual(text, "wwwwwww  wwwww\n 山田       山\n")

    def test_several_accents_on_one_letter(self):
        text = table([["a\u0302\u0301", "|"], ["bb", "|"]], header=False)
        self.assertEqual(text, "a\u0302\u0301   |\nbb  |\n")

    def test_the_rule_under_the_header_is_as_wide(self):
        self.assertEqual(table([["国"], ["x"]]), "国\n--\nx\n")

    def test_cut_counts_columns(self):
        self.assertEqual(table([["山田太郎"]], header=False, limit=8), "山田太郎\n")
        self.assertEqual(table([["山田太郎"]], header=False, limit=7), "山田太…\n")

    def test_a_character_that_fits_by_half_is_left_out(self):
        self.assertEqual(table([["山田太郎", "|"], ["abcdef", "|"]], header=False, limit=6), "山田…   |\nabcdef  |\n")
        self.assertEqual(table([["山田"]], header=False, limit=2), "…\n")

    def test_narrow_text_behind_a_character_that_did_not_fit_is_gone(self):
        self.assertEqual(table([["ab山cd"]], header=False, limit=4), "ab…\n")

    def test_an_accent_stays_with_its_letter(self):
        self.assertEqual(table([["Jose\u0301phine"]], header=False, limit=5), "Jose\u0301…\n")
        self.assertEqual(table([["Jose\u0301"]], header=False, limit=4), "Jose\u0301\n")


class ColourTest(unittest.TestCase):
    def test_colours_take_no_room(self):
        text = table([[f"{RED}failed{OFF}", "1"], ["ok", "20"]], header=False, align="lr")
        self.assertEqual(text, f"{RED}failed{OFF}   1\nok      20\n")

    def test_right_and_centre(self):
        text = table([["wwwww", "wwwww"], [f"{BOLD}a{OFF}", f"{RED}bb{OFF}"]], header=False, align="rc")
        self.assertEqual(text, f"wwwww  wwwww\n    {BOLD}a{OFF}   {RED}bb{OFF}\n")

    def test_the_rule_under_the_header(self):
        self.assertEqual(table([[f"{RED}ab{OFF}"], ["x"]]), f"{RED}ab{OFF}\n--\nx\n")

    def test_what_fits_is_not_cut(self):
        self.assertEqual(table([[f"{RED}abcd{OFF}"]], header=False, limit=4), f"{RED}abcd{OFF}\n")

    def test_colour_codes_survive_a_cut(self):
        text = table([[f"{RED}failed{OFF}", "|"]], header=False, limit=4)
        self.assertEqual(re.sub("\x1b\\[[0-9;]*m", "", text), "fai…  |\n")
        self.assertEqual(re.findall("\x1b\\[[0-9;]*m", text), [RED, OFF])
        self.assertTrue(text.startswith(f"{RED}fai"))

    def test_all_codes_behind_the_cut_survive_in_order(self):
        text = table([[f"a{RED}bcde{BOLD}fg{OFF}h"]], header=False, limit=3)
        self.assertEqual(re.findall("\x1b\\[[0-9;]*m", text), [RED, BOLD, OFF])
        self.assertEqual(re.sub("\x1b\\[[0-9;]*m", "", text), "ab…\n")

    def test_wide_and_coloured(self):
        text = table([[f"{RED}山田{OFF}太郎", "|"], ["abcdef", "|"]], header=False, limit=5)
        self.assertEqual(re.sub("\x1b\\[[0-9;]*m", "", text), "山田…  |\nabcd…  |\n")


if __name__ == "__main__":
    unittest.main()
