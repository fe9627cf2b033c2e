import unittest

from tern import Interpreter, TernError


class TernTest(unittest.TestCase):
    def run_it(self, source):
        lines = []
        Interpreter(out=lines.append).run(source)
        return lines

    def test_arithmetic_and_loops(self):
        self.assertEqual(
            self.run_it("let s = 0; for i in range(5) { if i == 3 { continue; } s = s + i; } print(s, 7 / 2, 7 % 4);"),
            ["7 3.5 3"],
        )

    def test_functions(self):
        self.assertEqual(self.run_it("fn f(a, b = 2) { return a * b; } print(f(3), f(3, 4));"), ["6 12"])

    def test_recursion(self):
        self.assertEqual(self.run_it("fn fact(n) { if n < 2 { return 1; } return n * fact(n - 1); } print(fact(6));"), ["720"])

    def test_errors(self):
        with self.assertRaises(TernError) as caught:
            self.run_it("let x = 1;\nprint(x + nope);")
        self.assertEqual(caught.exception.line, 2)
