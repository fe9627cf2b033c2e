import unittest

from tern import Interpreter, TernError


class Base(unittest.TestCase):
    def setUp(self):
        self.lines = []
        self.tern = Interpreter(out=self.lines.append)

    def prints(self, source, *expected):
        del self.lines[:]
        self.tern.run(source)
        self.assertEqual(self.lines, list(expected))

    def fails(self, source, line, text=""):
        with self.assertRaises(TernError) as caught:
            self.tern.run(source)
        self.assertEqual(caught.exception.line, line)
        self.assertIn(text, str(caught.exception))


class LanguageTest(Base):
    def test_arithmetic(self):
        self.prints("print(1 + 2 * 3, (1 + 2) * 3, -2 - 3, 7 / 2, 6 / 2, 7 % 4, 1.5 + 1.5);", "7 9 -5 3.5 3 3 3")

    def test_comparisons(self):
        self.prints('print(1 < 2, 2 <= 1, "a" < "b", 1 == 1.0, true == 1, nil == false, [1] == [1]);', "true false true true false false true")

    def test_and_or(self):
        self.prints('print(1 or 2, nil or 2, nil and 1, 0 and 5, not nil, not 0);', "1 2 nil 5 true false")
        self.prints("fn boom() { return 1 / 0; } print(true or boom(), false and boom());", "true false")

    def test_lists(self):
        self.prints('let a = [1, "x", [nil]]; push(a, true); a[0] = 5; print(a, len(a), a[2][0]);', '[5, "x", [nil], true] 4 nil')

    def test_loops(self):
        self.prints("let s = 0; for i in range(5) { if i == 3 { continue; } s = s + i; } print(s);", "7")
        self.prints("let n = 0; while true { n = n + 1; if n == 4 { break; } } print(n);", "4")
        self.prints("for i in [1, 2] { for j in [1, 2, 3] { if j > i { break; } print(i, j); } }", "1 1", "2 1", "2 2")

    def test_for_walks_over_the_list_as_it_was(self):
        self.prints("let a = [1, 2]; for x in a { push(a, x); } print(a);", "[1, 2, 1, 2]")

    def test_else_if(self):
        self.prints("fn f(n) { if n < 0 { return -1; } else if n == 0 { return 0; } else { return 1; } } print(f(-5), f(0), f(5));", "-1 0 1")

    def test_errors_have_lines(self):
        self.fails("let x = 1;\nprint(x +\n nope);", 3, "nope")
        self.fails("\n\nlet y = 1 / 0;", 3)
        self.fails("x = ;", 1)
        self.fails("nope = 1;", 1, "nope")
        self.fails("fn f(a) { }\nf();", 2)
        self.fails("[1][1];", 1)
        self.fails('1 + "a";', 1)

    def test_the_value_of_a_program(self):
        self.assertEqual(self.tern.run("let a = 2; a * 3;"), 6)
        self.assertIsNone(self.tern.run("let b = 2;"))

    def test_variables_are_kept_between_runs(self):
        self.tern.run("let kept = 1; fn bump() { kept = kept + 1; return kept; }")
        self.prints("print(bump(), kept);", "2 2")

    def test_recursion(self):
        self.prints("fn fact(n) { if n < 2 { return 1; } return n * fact(n - 1); } print(fact(20));", "2432902008176640000")
        self.fails("fn down(n) { return down(n + 1); }\ndown(0);", 1, "deep")
        self.prints("print(fact(5));", "120")

    def test_misplaced_words_are_found_before_anything_runs(self):
        for word in ("break", "continue", "return 1"):
            self.fails(f'print("ran");\n{word};', 2)
        self.assertEqual(self.lines, [])


class ClosureTest(Base):
    def test_a_counter(self):
        self.prints(
            "fn counter(start) { let n = start; return fn(step = 1) { n = n + step; return n; }; }"
            "let next = counter(10); print(next(), next(5)); let other = counter(0); print(other(), next(), other());",
            "11 16",
            "1 17 2",
        )

    def test_two_functions_share_a_variable(self):
        self.prints(
            "fn pair() { let n = 0; return [fn() { n = n + 1; }, fn() { return n; }]; }"
            "let p = pair(); p[0](); p[0](); let q = pair(); q[0](); print(p[1](), q[1]());",
            "2 1",
        )

    def test_parameters_are_remembered(self):
        self.prints("fn add(a) { return fn(b) { return fn(c) { return a + b + c; }; }; } print(add(1)(20)(300));", "321")

    def test_a_local_function_calls_itself(self):
        self.prints(
            "fn outer() { fn fact(n) { if n < 2 { return 1; } return n * fact(n - 1); } return fact; }"
            "let f = outer(); print(f(5)); fn fact(n) { return 0; } print(f(5));",
            "120",
            "120",
        )

    def test_functions_that_call_each_other(self):
        self.prints(
            "fn make() { fn even(n) { if n == 0 { return true; } return odd(n - 1); }"
            "fn odd(n) { if n == 0 { return false; } return even(n - 1); } return even; }"
            "let even = make(); print(even(10), even(7));",
            "true false",
        )

    def test_a_variable_that_is_changed_after_the_function_was_made(self):
        self.prints("fn f() { let x = 1; let g = fn() { return x; }; x = 2; return g; } print(f()());", "2")

    def test_a_block_without_a_function(self):
        self.prints("let g = nil; if true { let x = 1; g = fn() { x = x * 2; return x; }; } let x = 100; print(g(), g(), x);", "2 4 100")

    def test_each_call_has_its_own_variables(self):
        self.prints(
            "let made = []; fn f(n) { let mine = n; push(made, fn() { mine = mine + 1; return mine; }); if n > 0 { f(n - 1); } }"
            "f(2); print(made[0](), made[1](), made[2](), made[0]());",
            "3 2 1 4",
        )

    def test_functions_as_arguments(self):
        self.prints(
            "fn map(list, f) { let out = []; for x in list { push(out, f(x)); } return out; }"
            "fn scale(list, x) { return map(list, fn(item) { return item * x; }); }"
            "print(scale([1, 2, 3], 10));",
            "[10, 20, 30]",
        )


class WrittenNotCalledTest(Base):
    def test_reading(self):
        self.prints(
            'let unit = "km"; fn show(n) { return text(n) + unit; }'
            'fn report() { let unit = "miles"; return show(5); } print(report());',
            "5km",
        )

    def test_writing(self):
        self.prints(
            "let total = 0; fn add(n) { total = total + n; }"
            "fn job() { let total = 100; add(5); return total; } print(job(), total);",
            "100 5",
        )

    def test_the_variables_of_the_caller_are_not_known(self):
        self.fails("fn f() { return secret; }\nfn g() { let secret = 1; return f(); }\ng();", 1, "secret")
        self.fails("fn f2(x) { for i in [1] { } return i; }\nfor i in [7] { f2(0); }", 1, "'i'")

    def test_the_parameters_of_the_caller_are_not_known(self):
        self.fails("fn f() { n = 5; }\nfn g(n) { f(); return n; }\nprint(g(1));", 1, "'n'")

    def test_a_global_declared_later(self):
        self.prints("fn f() { return later; } let later = 3; print(f());", "3")

    def test_default_values(self):
        self.prints("let base = 1; fn f(a, b = a + base, c = a * b) { return [a, b, c]; } print(f(2), f(2, 5));", "[2, 3, 6] [2, 5, 10]")
        self.prints("fn g() { let base = 100; return f(1); } print(g());", "[1, 2, 2]")
        self.fails("fn h(x = hidden) { return x; }\nfn k() { let hidden = 1; return h(); }\nk();", 1, "hidden")
        self.fails("fn early(a = b, b = 1) { return a; } early();", 1, "'b'")

    def test_default_values_are_calculated_anew(self):
        self.prints("fn f(list = []) { push(list, 1); return len(list); } print(f(), f());", "1 1")
        self.prints("let n = 0; fn tick() { n = n + 1; return n; } fn g(x = tick()) { return x; } print(g(), g(9), g());", "1 9 2")

    def test_a_function_in_a_default_value(self):
        self.prints("fn f(a, get = fn() { return a; }) { a = a + 1; return get(); } print(f(1));", "2")


class LoopVariableTest(Base):
    def test_for(self):
        self.prints(
            "let fs = []; for i in [1, 2, 3] { push(fs, fn() { i = i + 10; return i; }); }"
            "print(fs[0](), fs[1](), fs[2](), fs[0]());",
            "11 12 13 21",
        )

    def test_while(self):
        self.prints(
            "let fs = []; let n = 0; while n < 3 { let mine = n; push(fs, fn() { return mine; }); n = n + 1; }"
            "print(fs[0](), fs[1](), fs[2]());",
            "0 1 2",
        )

    def test_with_continue(self):
        self.prints(
            "let fs = []; for i in range(4) { let j = i * i; push(fs, fn() { return [i, j]; }); if i == 1 { continue; } j = -j; }"
            "for f in fs { print(f()); }",
            "[0, 0]", "[1, 1]", "[2, -4]", "[3, -9]",
        )

    def test_a_changed_loop_variable_does_not_disturb_the_loop(self):
        self.prints("for i in [1, 2] { i = i * 10; print(i); }", "10", "20")


class BlockTest(Base):
    def test_names_end_with_their_block(self):
        for source in ("if true { let x = 1; }\nx;", "while true { let x = 1; break; }\nx;", "for x in [1] { }\nx;", "for i in [1] { let x = i; break; }\nx;"):
            self.setUp()
            self.fails(source, 2, "'x'")

    def test_also_after_a_return_from_deep_inside(self):
        self.prints(
            "fn f() { for i in [1, 2] { if i == 2 { let hidden = 5; while true { return hidden; } } } } print(f());", "5"
        )
        for name in ("hidden", "i"):
            self.fails(f"{name};", 1, name)

    def test_break_out_of_blocks(self):
        self.prints("let x = 1; for i in [1, 2, 3] { if true { let x = 2; if i == 2 { let x = 3; break; } } } print(x); let y = 4; print(y);", "1", "4")
        self.fails("let x = 5;", 1, "twice")

    def test_hiding(self):
        self.prints("let x = 1; if true { let x = 2; x = 3; print(x); } print(x);", "3", "1")
        self.prints("let z = 1; if true { let z = z + 1; print(z); }", "2")
        self.prints("fn f(x) { x = x + 1; return x; } print(f(10), x);", "11 1")

    def test_an_outer_variable_before_its_name_is_hidden(self):
        self.prints("let x = 1; fn f() { print(x); let x = 2; print(x); } f(); f();", "1", "2", "1", "2")

    def test_declared_twice(self):
        self.fails("let a = 1;\nlet a = 2;", 2, "'a'")
        self.fails("fn b() { }\nlet b = 1;", 2, "'b'")
        self.fails("fn c(x) {\nlet x = 1; }\nc(1);", 2, "'x'")
        self.fails("fn d(x, x) { }", 1, "'x'")
        self.prints("fn e(x) { if x { let x = 2; return x; } } print(e(true));", "2")

    def test_builtins_can_be_hidden(self):
        self.prints("let len = 5; print(len);", "5")


class BreakTest(Base):
    def test_not_through_a_function(self):
        for word in ("break", "continue"):
            self.fails(f"for i in [1] {{\nlet f = fn() {{\n{word}; }}; }}", 3, word)
            self.fails(f"while false {{ fn f() {{ if true {{ {word}; }} }} }}", 1, word)

    def test_a_loop_inside_of_a_function_inside_of_a_loop(self):
        self.prints(
            "for i in [1, 2] { let f = fn() { for j in [1, 2, 3] { if j == 2 { break; } print(i, j); } }; f(); if i == 1 { continue; } }",
            "1 1", "2 1",
        )

    def test_return_in_a_loop(self):
        self.prints("fn find(list, x) { for i in list { if i == x { return i; } } return nil; } print(find([1, 2, 3], 2), find([], 1));", "2 nil")


class RecoveryTest(Base):
    def test_after_an_error_in_a_function(self):
        self.tern.run("let x = 1; fn bad(x) { let local = 2; if true { let deep = 3; return 1 / 0; } }")
        self.fails("bad(5);", 1, "zero")
        for name in ("local", "deep"):
            self.fails(f"{name};", 1, name)
        self.prints("print(x);", "1")

    def test_after_an_error_in_blocks(self):
        self.fails("for i in [1, 2] { let a = 1; while true { let b = nope; } }", 1)
        for name in ("i", "a"):
            self.fails(f"{name};", 1, name)
        self.tern.run("let a = 5; let b = 6; let i = 7;")
        self.prints("fn f() { return [a, b, i]; } print(f());", "[5, 6, 7]")

    def test_what_was_declared_at_the_prompt_stays(self):
        self.fails("fn f() { return 1 / 0; } f();", 1)
        self.tern.run("let kept = 1;")
        self.fails("f();", 1)
        self.tern.run("let too = 2;")
        self.prints("print(kept, too);", "1 2")

    def test_what_was_done_remains(self):
        self.fails("let done = [1]; push(done, 2); done = done + [3]; nope();", 1)
        self.prints("print(done);", "[1, 2, 3]")

    def test_the_depth_is_counted_anew(self):
        self.tern.run("fn bad(n) { if n == 0 { return nope; } return bad(n - 1); }")
        for _ in range(5):
            self.fails("bad(30);", 1, "nope")
        self.prints("fn good(n) { if n == 0 { return 0; } return 1 + good(n - 1); } print(good(50));", "50")

    def test_interpreters_do_not_share_variables(self):
        other = Interpreter(out=self.lines.append)
        self.tern.run("let mine = 1;")
        with self.assertRaises(TernError):
            other.run("mine;")


if __name__ == "__main__":
    unittest.main()
