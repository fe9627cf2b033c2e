import unittest

from sheetlet import Error, Sheet

CIRCLE = Error("#CIRC!")


def filled(*texts, **options):
    """A sheet from 'A1 text' lines."""
    sheet = Sheet(**options)
    for text in texts:
        name, _, content = text.partition(" ")
        sheet.set(name, content)
    return sheet


class Base(unittest.TestCase):
    def check(self, sheet, **values):
        got = {name: sheet.get(name) for name in values}
        self.assertEqual(got, values)
        self.assertEqual({name: type(value) for name, value in got.items()}, {name: type(v) for name, v in values.items()})


class FormulaTest(Base):
    def test_arithmetic(self):
        self.check(
            filled("A1 =1+2*3", "A2 =(1+2)*3", "A3 =-2^2", "A4 =2^3^2", "A5 =7/2", "A6 =6/2", "A7 =2-3-4", "A8 =-A1", "B1 1.50"),
            A1=7, A2=9, A3=-4, A4=512, A5=3.5, A6=3, A7=-5, A8=-7, B1=1.5,
        )

    def test_text_and_comparisons(self):
        self.check(
            filled('A1 ="a"&1&TRUE&Z9', 'A2 ="say ""hi"""', "A3 =1<2", 'A4 ="b">"a"', "A5 =1=1", 'A6 ="1"=1', "A7 =Z9=0", "A8 hello"),
            A1="a1TRUE", A2='say "hi"', A3=True, A4=True, A5=True, A6=False, A7=True, A8="hello",
        )

    def test_functions(self):
        self.check(
            filled("A1 1", "A2 2", "A3 x", "A5 6", "B1 =SUM(A1:A5; 10)", "B2 =MIN(A1:A5)", "B3 =MAX(A5:A1)", "B4 =COUNT(A1:A5)",
                   "B5 =AVERAGE(A1:A5)", "B6 =AVERAGE(Z1:Z3)", "B7 =IF(A1<A2; \"yes\"; 1/0)", "B8 =IF(0; 1)", "B9 =TWICE(A2)",
                   functions={"TWICE": lambda n: 2 * n}),
            B1=19, B2=1, B3=6, B4=3, B5=3, B6=Error("#DIV/0!"), B7="yes", B8=False, B9=4,
        )

    def test_errors(self):
        self.check(
            filled("A1 =1/0", "A2 =A1+1", "A3 =\"x\"*2", "A4 =NOPE(1)", "A5 =1+", "A6 =SUM(A1:A3)", "A7 =IFERROR(A2; 5)", "A8 =IF(1; 2; A1)", "A9 =(A3+A1)"),
            A1=Error("#DIV/0!"), A2=Error("#DIV/0!"), A3=Error("#VALUE!"), A4=Error("#NAME?"), A5=Error("#SYNTAX!"),
            A6=Error("#DIV/0!"), A7=5, A8=2, A9=Error("#VALUE!"),
        )

    def test_clearing(self):
        sheet = filled("A1 5", "A2 =A1+1")
        self.assertEqual(sheet.set("A1", ""), ["A1", "A2"])
        self.assertIsNone(sheet.get("A1"))
        self.check(sheet, A2=1)

    def test_bad_names(self):
        for name in ("", "A", "1", "A0", "a1", "A1:B2"):
            with self.assertRaises(ValueError, msg=name):
                Sheet().set(name, "1")


class DependencyTest(Base):
    def test_every_cell_of_a_range(self):
        sheet = filled("D1 =SUM(A1:B3)")
        total = 0
        for name in ("B2", "A1", "B3", "A2", "B1", "A3"):
            total += 10
            self.assertEqual(sheet.set(name, "10"), sorted([name, "D1"]), name)
            self.check(sheet, D1=total)
        self.assertEqual(sheet.set("C2", "10"), ["C2"])

    def test_ranges_with_formulas_in_them(self):
        sheet = filled("A1 1", "A2 =A1+1", "A3 =A2+1", "A4 =A3+1", "B1 =SUM(A1:A4)", "B2 =MAX(A4:A1)")
        self.check(sheet, B1=10, B2=4)
        sheet.set("A1", "5")
        self.check(sheet, B1=26, B2=8)
        sheet.set("A3", "100")
        self.check(sheet, B1=212, B2=101)

    def test_a_replaced_formula_lets_go(self):
        calls = []
        sheet = filled("B1 1", "C1 7", "A1 =SEEN(B1)", functions={"SEEN": lambda n: calls.append(n) or n})
        sheet.set("A1", "=SEEN(C1)")
        del calls[:]
        self.assertEqual(sheet.set("B1", "2"), ["B1"])
        self.assertEqual(calls, [])
        sheet.set("B1", "=A1")
        self.check(sheet, A1=7, B1=7)

    def test_a_formula_replaced_by_a_constant_lets_go(self):
        sheet = filled("A1 =B1+C1", "A1 5")
        self.assertEqual(sheet.set("B1", "3"), ["B1"])
        self.assertEqual(sheet.set("C1", "=A1"), ["C1"])
        self.check(sheet, A1=5, C1=5)

    def test_a_formula_that_cannot_be_read_lets_go(self):
        sheet = filled("A1 =B1", "A1 =B1+")
        self.assertEqual(sheet.set("B1", "=A1"), ["B1"])
        self.check(sheet, A1=Error("#SYNTAX!"), B1=Error("#SYNTAX!"))

    def test_a_reference_that_stays_when_a_formula_is_replaced(self):
        sheet = filled("A1 =B1+B1", "A1 =B1*3", "B1 2")
        self.check(sheet, A1=6)

    def test_entered_in_any_order(self):
        texts = ["A1 2", "A2 =A1*2", "A3 =A1+A2", "A4 =SUM(A1:A3)", "A5 =IF(A4>10; A3; A2)"]
        for shift in range(5):
            order = texts[shift:] + texts[:shift]
            self.check(filled(*order), A1=2, A2=4, A3=6, A4=12, A5=6)
            self.check(filled(*reversed(order)), A1=2, A2=4, A3=6, A4=12, A5=6)


class ChangeTest(Base):
    def test_different_for_a_moment_only(self):
        for sheet in (
            filled("A1 1", "B1 =A1+1", "C1 =A1-B1", "D1 =C1&\"!\""),
            filled("A1 1", "D1 =C1&\"!\"", "C1 =A1-B1", "B1 =A1+1"),
        ):
            self.assertEqual(sheet.set("A1", "2"), ["A1", "B1"])
            self.check(sheet, C1=-1, D1="-1!")

    def test_the_same_again(self):
        sheet = filled("A1 1", "B1 =A1")
        self.assertEqual(sheet.set("A1", "1"), [])
        self.assertEqual(sheet.set("A1", "=2-1"), [])
        self.assertEqual(sheet.set("A1", "1.0"), [])
        self.assertEqual(sheet.text("A1"), "1.0")

    def test_kinds_are_told_apart(self):
        sheet = filled("A1 1", "B1 =A1&\"\"")
        self.assertEqual(sheet.set("A1", "=1=1"), ["A1", "B1"])
        self.check(sheet, A1=True, B1="TRUE")
        self.assertEqual(sheet.set("A1", '="1"'), ["A1", "B1"])
        self.check(sheet, A1="1", B1="1")
        self.assertEqual(sheet.set("A1", "1"), ["A1"])
        self.assertEqual(sheet.set("A1", "=1=2"), ["A1", "B1"])
        self.assertEqual(sheet.set("A1", "0"), ["A1", "B1"])
        self.assertEqual(sheet.set("A1", ""), ["A1", "B1"])

    def test_sorted_by_column_and_row(self):
        sheet = filled("AA1 =A1", "B10 =A1", "B9 =A1", "A2 =A1", "Z3 =A1")
        self.assertEqual(sheet.set("A1", "1"), ["A1", "A2", "B9", "B10", "Z3", "AA1"])

    def test_errors_are_values(self):
        sheet = filled("A1 =1/0", "B1 =A1")
        self.assertEqual(sheet.set("A1", "=2/0"), [])
        self.assertEqual(sheet.set("A1", '="x"+1'), ["A1", "B1"])


class CircleTest(Base):
    def test_itself(self):
        sheet = filled("A1 =A1+1", "B1 =A1")
        self.check(sheet, A1=CIRCLE, B1=CIRCLE)
        self.assertEqual(sheet.set("A1", "5"), ["A1", "B1"])
        self.check(sheet, A1=5, B1=5)

    def test_through_others(self):
        sheet = filled("A1 =C1", "B1 =A1+1", "D1 =B1", "E1 =D1*2")
        self.assertEqual(sheet.set("C1", "=B1+1"), ["A1", "B1", "C1", "D1", "E1"])
        self.check(sheet, A1=CIRCLE, B1=CIRCLE, C1=CIRCLE, D1=CIRCLE, E1=CIRCLE)
        self.assertEqual(sheet.set("B1", "10"), ["A1", "B1", "C1", "D1", "E1"])
        self.check(sheet, A1=11, B1=10, C1=11, D1=10, E1=20)

    def test_cells_behind_a_circle_whatever_the_order(self):
        texts = ["A1 =B1", "B1 =A1", "C1 =B1+1", "D1 =C1", "E1 =SUM(A1:D1)"]
        for shift in range(5):
            order = texts[shift:] + texts[:shift]
            for sheet in (filled(*order), filled(*reversed(order))):
                self.check(sheet, A1=CIRCLE, B1=CIRCLE, C1=CIRCLE, D1=CIRCLE, E1=CIRCLE)
                sheet.set("A1", "1")
                self.check(sheet, A1=1, B1=1, C1=2, D1=2, E1=6)

    def test_if_and_iferror_do_not_help(self):
        sheet = filled("A1 =A1", "B1 =IFERROR(A1; 5)", "C1 =IF(FALSE; A1; 5)", "D1 =IF(TRUE; 1; D1)", "E1 =IFERROR(E1; 1)")
        self.check(sheet, B1=CIRCLE, C1=CIRCLE, D1=CIRCLE, E1=CIRCLE)
        sheet.set("F1", "2")
        sheet.set("G1", "=IF(TRUE; F1; A1)")
        self.check(sheet, G1=CIRCLE)
        self.assertEqual(sheet.set("F1", "3"), ["F1"])
        self.check(sheet, G1=CIRCLE)
        sheet.set("A1", "0")
        self.check(sheet, B1=0, C1=5, G1=3)

    def test_a_branch_that_is_not_taken_makes_a_circle(self):
        sheet = filled("A1 1", "B1 =IF(A1; 2; C1)", "C1 =B1")
        self.check(sheet, B1=CIRCLE, C1=CIRCLE)

    def test_through_a_range(self):
        sheet = filled("A1 1", "A3 =SUM(A1:A2)")
        sheet.set("A2", "=A3")
        self.check(sheet, A1=1, A2=CIRCLE, A3=CIRCLE)
        sheet.set("A2", "")
        self.check(sheet, A3=1)
        sheet.set("A3", "=SUM(A1:A5)")
        self.check(sheet, A3=CIRCLE)

    def test_a_circle_that_is_fed_from_outside(self):
        sheet = filled("A1 1", "B1 =C1+A1", "C1 =B1")
        self.assertEqual(sheet.set("A1", "2"), ["A1"])
        self.check(sheet, B1=CIRCLE, C1=CIRCLE)
        self.assertEqual(sheet.set("C1", "1"), ["B1", "C1"])
        self.check(sheet, B1=3)

    def test_two_circles(self):
        sheet = filled("A1 =B1", "B1 =A1", "C1 =D1", "D1 =C1+B1", "E1 =D1+A1")
        sheet.set("C1", "1")
        self.check(sheet, A1=CIRCLE, C1=1, D1=CIRCLE, E1=CIRCLE)
        self.assertEqual(sheet.set("B1", "2"), ["A1", "B1", "D1", "E1"])
        self.check(sheet, A1=2, D1=3, E1=5)

    def test_a_circle_moved(self):
        sheet = filled("A1 =B1", "B1 =A1", "C1 1")
        self.assertEqual(sheet.set("B1", "=C1"), ["A1", "B1"])
        self.assertEqual(sheet.set("C1", "=A1"), ["A1", "B1", "C1"])
        self.check(sheet, A1=CIRCLE, B1=CIRCLE, C1=CIRCLE)


class EffortTest(Base):
    def setUp(self):
        self.calls = []
        self.sheet = Sheet(functions={"SEEN": self.seen})

    def seen(self, label, value):
        self.calls.append(label)
        if len(self.calls) > 2000:
            raise AssertionError("far too many calculations")
        return value

    def put(self, name, expression):
        self.sheet.set(name, f'=SEEN("{name}"; {expression})')

    def test_each_formula_once(self):
        self.sheet.set("A1", "1")
        for row in range(2, 31):
            self.put(f"A{row}", f"A{row - 1}+A{row - 1}-A1")
        del self.calls[:]
        changed = self.sheet.set("A1", "2")
        self.assertEqual(sorted(self.calls), sorted(f"A{row}" for row in range(2, 31)))
        self.assertEqual(len(changed), 30)

    def test_each_formula_once_in_a_ladder(self):
        # Every cell uses both cells of the row above.
        self.sheet.set("A1", "1")
        self.sheet.set("B1", "=A1")
        for row in range(2, 40):
            self.put(f"A{row}", f"(A{row - 1}+B{row - 1})/2")
            self.put(f"B{row}", f"(B{row - 1}+A{row - 1})/2")
        del self.calls[:]
        self.sheet.set("A1", "5")
        self.assertEqual(len(self.calls), 76)
        self.assertEqual(self.sheet.get("B39"), 5)

    def test_after_what_it_depends_on(self):
        # The deep way to F1 is longer than the direct one.
        self.sheet.set("A1", "1")
        for name, expression in (("F1", "A1+E1"), ("B1", "A1"), ("E1", "D1"), ("C1", "B1"), ("D1", "C1"), ("G1", "F1")):
            self.put(name, expression)
        del self.calls[:]
        self.sheet.set("A1", "2")
        self.assertEqual(sorted(self.calls), ["B1", "C1", "D1", "E1", "F1", "G1"])
        self.assertEqual(self.sheet.get("G1"), 4)

    def test_nothing_behind_a_value_that_has_not_changed(self):
        self.sheet.set("A1", "5")
        self.put("B1", "A1>3")
        self.put("C1", "IF(B1; 1; 2)")
        self.put("D1", "C1+A1")
        del self.calls[:]
        self.assertEqual(self.sheet.set("A1", "6"), ["A1", "D1"])
        self.assertEqual(sorted(self.calls), ["B1", "D1"])
        del self.calls[:]
        self.assertEqual(self.sheet.set("A1", "1"), ["A1", "B1", "C1", "D1"])
        self.assertEqual(sorted(self.calls), ["B1", "C1", "D1"])

    def test_nothing_at_all(self):
        self.sheet.set("A1", "5")
        self.put("B1", "A1")
        self.put("C1", "Z1")
        del self.calls[:]
        self.sheet.set("A1", "=4+1")
        self.sheet.set("D1", "9")
        self.assertEqual(self.calls, [])

    def test_a_long_column(self):
        self.sheet.set("A1", "1")
        for row in range(2, 4001):
            self.sheet.set(f"A{row}", f"=A{row - 1}+1")
        self.assertEqual(len(self.sheet.set("A1", "2")), 4000)
        self.assertEqual(self.sheet.get("A4000"), 4001)

    def test_a_long_circle(self):
        for row in range(2, 2001):
            self.sheet.set(f"A{row}", f"=A{row - 1}+1")
        self.assertEqual(len(self.sheet.set("A1", "=A2000")), 2000)
        self.assertEqual(self.sheet.get("A1000"), CIRCLE)
        self.assertEqual(len(self.sheet.set("A1", "1")), 2000)
        self.assertEqual(self.sheet.get("A2000"), 2000)

    def test_a_wide_range(self):
        self.sheet.set("B1", "=SUM(A1:A1000)")
        for row in range(1, 1001, 7):
            self.sheet.set(f"A{row}", "1")
        self.assertEqual(self.sheet.get("B1"), 143)


class HistoryTest(Base):
    def test_a_long_history_equals_a_fresh_sheet(self):
        seed = 3
        names = [f"{column}{row}" for column in "ABC" for row in (1, 2, 3)]
        sheet, texts = Sheet(), {}
        for step in range(400):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            name, one, other = (names[(seed >> shift) % 9] for shift in (33, 40, 47))
            text = (
                str((seed >> 52) % 4), f"={one}+{other}", f"=SUM({one}:{other})", "", f"=IF({one}>1; {other}; 1)",
                str((seed >> 52) % 4), f"={one}", str((seed >> 52) % 3),
            )[(seed >> 57) % 8]
            before = {cell: sheet.get(cell) for cell in names}
            changed = sheet.set(name, text)
            texts[name] = text
            after = {cell: sheet.get(cell) for cell in names}
            fresh = filled(*(f"{cell} {texts[cell]}" for cell in reversed(names) if cell in texts))
            self.assertEqual(after, {cell: fresh.get(cell) for cell in names}, f"step {step}: {texts}")
            self.assertEqual(changed, [cell for cell in names if repr(before[cell]) != repr(after[cell])], f"step {step}")


if __name__ == "__main__":
    unittest.main()
