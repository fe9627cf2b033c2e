import unittest

from sheetlet import Error, Sheet


class SheetTest(unittest.TestCase):
    def test_formulas(self):
        sheet = Sheet()
        sheet.set("A1", "2")
        sheet.set("A2", "=A1*3+1")
        sheet.set("A3", '="n: "&A2')
        self.assertEqual((sheet.get("A2"), sheet.get("A3")), (7, "n: 7"))

    def test_changes_are_passed_on(self):
        sheet = Sheet()
        sheet.set("A1", "2")
        sheet.set("A2", "=A1*3")
        self.assertEqual(sheet.set("A1", "5"), ["A1", "A2"])
        self.assertEqual(sheet.get("A2"), 15)

    def test_errors(self):
        sheet = Sheet()
        sheet.set("A1", "=1/0")
        sheet.set("A2", "=IFERROR(A1; 7)")
        sheet.set("A3", "=)")
        self.assertEqual(sheet.get("A1"), Error("#DIV/0!"))
        self.assertEqual(sheet.get("A2"), 7)
        self.assertEqual(str(sheet.get("A3")), "#SYNTAX!")
