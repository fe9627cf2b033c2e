import unittest

from rowstream import FormatError, records, rows


class ReaderTest(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(list(rows(["a,b\n1,2\n"])), [["a", "b"], ["1", "2"]])

    def test_quoted(self):
        self.assertEqual(list(rows(['"a,b","say ""hi"""\n'])), [["a,b", 'say "hi"']])

    def test_cut_inside_a_field(self):
        self.assertEqual(list(rows(["a,b", "c\n1", ",2"])), [["a", "bc"], ["1", "2"]])

    def test_not_closed(self):
        with self.assertRaises(FormatError):
            list(rows(['"abc']))

    def test_records(self):
        self.assertEqual(list(records(["a,b\n\n1,2\n"])), [{"a": "1", "b": "2"}])
