import unittest

from rowstream import FormatError, Reader, records, rows

SAMPLES = {
    "plain": ("a,b\n1,2\n", [["a", "b"], ["1", "2"]]),
    "no end": ("a,b\n1,2", [["a", "b"], ["1", "2"]]),
    "dos": ("a,b\r\n1,2\r\n", [["a", "b"], ["1", "2"]]),
    "mac": ("a,b\r1,2\r", [["a", "b"], ["1", "2"]]),
    "mixed ends": ("a\r\n\r\nb\r\rc\n\rd\n\n", [["a"], [], ["b"], [], ["c"], [], ["d"], []]),
    "empty fields": (",\n,,\na,\n,b\n", [["", ""], ["", "", ""], ["a", ""], ["", "b"]]),
    "empty field at the end": ("a,", [["a", ""]]),
    "quotes": ('"a,b","say ""hi""",""\n', [["a,b", 'say "hi"', ""]]),
    "only quotes": ('"","""",""""""\n', [["", '"', '""']]),
    "an empty quoted field alone": ('""\n\n""\r\n""', [[""], [], [""], [""]]),
    "line ends in quotes": ('"a\r\nb\rc\nd",e\r\n"\r",f\n', [["a\r\nb\rc\nd", "e"], ["\r", "f"]]),
    "return at the end of quotes": ('"a\r"\n"b\r"\r\nc', [["a\r"], ["b\r"], ["c"]]),
    "quotes in the middle": ('a"b,c""d,e"\n', [['a"b', 'c""d', 'e"']]),
    "blanks": (' a , "b"\n', [[" a ", ' "b"']]),
    "byte order mark": ('\ufeff"a",b\nc\ufeff\n\ufeffd\n', [["a", "b"], ["c\ufeff"], ["\ufeffd"]]),
    "other line separators": ("a\x0b\u2028\x85b\n", [["a\x0b\u2028\x85b"]]),
    "nothing": ("", []),
}


class SampleTest(unittest.TestCase):
    def test_in_one_piece(self):
        for name, (text, expected) in SAMPLES.items():
            self.assertEqual(list(rows([text])), expected, name)

    def test_character_by_character(self):
        for name, (text, expected) in SAMPLES.items():
            self.assertEqual(list(rows(text)), expected, name)

    def test_in_two_pieces_cut_anywhere(self):
        for name, (text, expected) in SAMPLES.items():
            for cut in range(len(text) + 1):
                self.assertEqual(list(rows([text[:cut], text[cut:]])), expected, f"{name}, cut at {cut}")

    def test_in_three_pieces_with_empty_ones_between(self):
        for name, (text, expected) in SAMPLES.items():
            for cut in range(len(text)):
                pieces = ["", text[:cut], "", "", text[cut : cut + 1], "", text[cut + 1 :], ""]
                self.assertEqual(list(rows(pieces)), expected, f"{name}, cut at {cut}")


class PlainTest(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(list(rows(["a,b\n1,2\n"])), [["a", "b"], ["1", "2"]])

    def test_quoted(self):
        self.assertEqual(list(rows(['"a,b","say ""hi"""\n'])), [["a,b", 'say "hi"']])

    def test_cut_inside_a_field(self):
        self.assertEqual(list(rows(["a,b", "c\n1", ",2"])), [["a", "bc"], ["1", "2"]])

    def test_another_delimiter(self):
        reader = Reader(delimiter=";", quote="'")
        self.assertEqual(reader.feed("a,b;'c;''d'\n"), [["a,b", "c;'d"]])

    def test_records(self):
        self.assertEqual(list(records(["a,b\n\n1,2\n"])), [{"a": "1", "b": "2"}])
        with self.assertRaises(ValueError):
            list(records(["a,b\n1\n"]))


class PromptTest(unittest.TestCase):
    """A row comes as soon as it is complete, not with the next piece."""

    def test_after_a_line_feed(self):
        reader = Reader()
        self.assertEqual(reader.feed("a,b\n"), [["a", "b"]])
        self.assertEqual(reader.feed("c"), [])
        self.assertEqual(reader.feed(",d\ne"), [["c", "d"]])
        self.assertEqual(reader.close(), [["e"]])

    def test_after_a_return(self):
        reader = Reader()
        self.assertEqual(reader.feed("a,b\r"), [["a", "b"]])
        self.assertEqual(reader.feed("\n"), [])
        self.assertEqual(reader.feed("\n"), [[]])
        self.assertEqual(reader.close(), [])

    def test_after_a_closing_quote_in_another_piece(self):
        reader = Reader()
        self.assertEqual(reader.feed('"a"'), [])
        self.assertEqual(reader.feed("\n"), [["a"]])

    def test_a_last_field_that_ends_with_its_quote(self):
        reader = Reader()
        self.assertEqual(reader.feed('a,"b"'), [])
        self.assertEqual(reader.close(), [["a", "b"]])


class ErrorTest(unittest.TestCase):
    def line_of_error(self, text):
        lines = set()
        for pieces in [[text], list(text)] + [[text[:cut], text[cut:]] for cut in range(len(text))]:
            try:
                got = list(rows(pieces))
            except FormatError as error:
                lines.add(error.line)
                self.assertIn(f"line {error.line}", str(error))
            else:
                self.fail(f"{pieces!r} gave {got!r}")
        self.assertEqual(len(lines), 1, f"{text!r}: {lines}")
        return lines.pop()

    def test_text_after_a_closing_quote(self):
        self.assertEqual(self.line_of_error('"a"b,c\n'), 1)
        self.assertEqual(self.line_of_error('x\n"a" ,c\n'), 2)
        self.assertEqual(self.line_of_error('""x"\n'), 1)

    def test_text_after_a_quoted_field_of_several_lines(self):
        self.assertEqual(self.line_of_error('x\r\n"a\r\nb"c\r\n'), 3)

    def test_not_closed(self):
        self.assertEqual(self.line_of_error('"abc'), 1)
        self.assertEqual(self.line_of_error('"'), 1)
        self.assertEqual(self.line_of_error('a\nb,"'), 2)
        self.assertEqual(self.line_of_error('a\r\n"b\n"\rc,"d\r\ne\r\n'), 4)

    def test_not_closed_after_a_doubled_quote(self):
        self.assertEqual(self.line_of_error('"a""\n\n'), 1)
        self.assertEqual(self.line_of_error('"ok"\n"a\n""\n\n'), 2)


if __name__ == "__main__":
    unittest.main()
