import io
import itertools
import os
import tempfile
import unittest

from braid import changes, merge
from braid.__main__ import main


def lines(words, end="\n"):
    """'a b c' as three lines."""
    return "".join(word + end for word in words.split())


def conflict(ours, theirs):
    return "<<<<<<< ours\n" + lines(ours) + "=======\n" + lines(theirs) + ">>>>>>> theirs\n"


class Base(unittest.TestCase):
    def check(self, base, ours, theirs, *expected):
        """Expected is a list of words, and pairs for conflicts."""
        for swapped in (False, True):
            one, other = (theirs, ours) if swapped else (ours, theirs)
            text = "".join(
                lines(part) if isinstance(part, str) else conflict(*(part[::-1] if swapped else part)) for part in expected
            )
            result = merge(lines(base), lines(one), lines(other))
            self.assertEqual(result.text, text, "sides swapped" if swapped else "")
            self.assertEqual(result.conflicts, sum(not isinstance(part, str) for part in expected))


class EasyTest(Base):
    def test_one_side(self):
        self.check("1 2 3 4 5", "1 2 x 4 5", "1 2 3 4 5", "1 2 x 4 5")
        self.check("1 2 3 4 5", "1 2 3 4 5", "1 5", "1 5")

    def test_far_apart(self):
        self.check("1 2 3 4 5", "1 x 3 4 5", "1 2 3 4 y", "1 x 3 4 y")
        self.check("1 2 3 4 5", "0 1 2 3 4 5", "1 2 3 4 5 6", "0 1 2 3 4 5 6")
        self.check("1 2 3 4 5", "2 3 4 5", "1 2 3 x y 4 5", "2 3 x y 4 5")

    def test_the_same_line(self):
        self.check("1 2 3", "1 x 3", "1 y 3", "1", ("x", "y"), "3")

    def test_the_same_change(self):
        self.check("1 2 3 4 5", "1 x 3 y 5", "1 x 3 4 5", "1 x 3 y 5")
        self.check("1 2 3", "1 x y 3", "1 x y 3", "1 x y 3")
        self.check("1 2 3", "1 3", "1 3", "1 3")

    def test_changed_and_deleted(self):
        self.check("1 2 3", "1 3", "1 x 3", "1", ("", "x"), "3")

    def test_one_line_between(self):
        self.check("1 2 3", "x 2 3", "1 2 y", "x 2 y")

    def test_labels(self):
        self.assertEqual(
            merge("1\n", "2\n", "3\n", labels=("mine", "yours")).text, "<<<<<<< mine\n2\n=======\n3\n>>>>>>> yours\n"
        )

    def test_changes(self):
        found = changes(["a", "b", "c"], ["x", "a", "c", "d"])
        self.assertEqual([(c.start, c.end, c.lines) for c in found], [(0, 0, ["x"]), (1, 2, []), (3, 3, ["d"])])


class SamePlaceTest(Base):
    def test_at_the_end(self):
        self.check("1 2", "1 2 x", "1 2 y", "1 2", ("x", "y"))

    def test_in_the_middle(self):
        self.check("1 2", "1 x 2", "1 y 2", "1", ("x", "y"), "2")

    def test_into_nothing(self):
        self.check("", "x", "y", ("x", "y"))
        self.check("", "x", "", "x")

    def test_the_same_line(self):
        self.check("1 2", "1 2 x", "1 2 x", "1 2 x")
        self.check("1 2", "1 x 2", "1 x 2", "1 x 2")

    def test_an_insertion_next_to_a_change(self):
        self.check("1 2 3", "1 x 2 3", "1 y 3", "1", ("x 2", "y"), "3")
        self.check("1 2 3", "1 2 x 3", "1 y 3", "1", ("2 x", "y"), "3")

    def test_an_insertion_next_to_a_deletion(self):
        self.check("1 2 3", "1 x 2 3", "1 3", "1", ("x 2", ""), "3")
        self.check("1 2 3", "1 2 x 3", "1 3", "1", ("2 x", ""), "3")

    def test_an_insertion_inside_of_a_change(self):
        self.check("1 2 3 4", "1 2 x 3 4", "1 y 4", "1", ("2 x 3", "y"), "4")


class TouchTest(Base):
    def test_neighbours(self):
        self.check("1 2 3 4", "1 x 3 4", "1 2 y 4", "1", ("x 3", "2 y"), "4")
        self.check("1 2 3 4 5 6 7 8 9", "1 2 3 4 8 9", "1 2 3 4 5 6 7 x 9", "1 2 3 4", ("8", "5 6 7 x"), "9")

    def test_a_chain(self):
        self.check(
            "1 2 3 4 5 6 7 8 9",
            "1 a b c 5 d e f 9",
            "1 2 3 x y z 7 8 9",
            "1",
            ("a b c 5 d e f", "2 3 x y z 7 8"),
            "9",
        )

    def test_one_large_change_over_several_small_ones(self):
        self.check("1 2 3 4 5 6 7", "1 x 7", "1 a 3 b 5 c 7", "1", ("x", "a 3 b 5 c"), "7")
        self.check("1 2 3 4 5 6 7", "1 7", "1 a 3 4 5 b 7", "1", ("", "a 3 4 5 b"), "7")

    def test_a_long_chain(self):
        self.check("1 2 3 4 5 6 7 8", "a 2 3 b 5 6 c 8", "1 x y 4 z w 7 v", ("a 2 3 b 5 6 c 8", "1 x y 4 z w 7 v"))

    def test_a_region_that_is_the_same_in_both_versions(self):
        # The same result, from different changes: here both sides replace 2 and 3, one of them in two steps.
        self.check("1 2 2 3", "1 2 3", "1 2 3", "1 2 3")

    def test_after_a_region_all_goes_on(self):
        self.check(
            "1 2 3 4 5 6 7 8 9",
            "1 a 3 4 5 6 d 8 9",
            "1 2 x 4 5 6 7 8 y",
            "1", ("a 3", "2 x"), "4 5 6 d 8 y",
        )

    def test_two_conflicts(self):
        self.check("1 2 3 4 5", "a 2 3 4 b", "x 2 3 4 y", ("a", "x"), "2 3 4", ("b", "y"))


class TrimTest(Base):
    def test_common_lines_are_taken_out(self):
        self.check("o", "a x b", "a y b", "a", ("x", "y"), "b")
        self.check("1 o 2", "1 a x 2", "1 a y z 2", "1 a", ("x", "y z"), "2")
        self.check("1 o 2", "1 x b c 2", "1 y b c 2", "1", ("x", "y"), "b c 2")

    def test_one_side_is_nothing_but_common_lines(self):
        self.check("o", "a b", "a", "a", ("b", ""))
        self.check("o", "a", "a a", "a", ("", "a"))
        self.check("o", "a b", "a x b", "a", ("", "x"), "b")

    def test_not_with_the_base_shown(self):
        result = merge("o\n", lines("a x b"), lines("a y b"), show_base=True)
        self.assertEqual(
            result.text, "<<<<<<< ours\na\nx\nb\n||||||| base\no\n=======\na\ny\nb\n>>>>>>> theirs\n"
        )

    def test_the_whole_region_of_the_base_is_shown(self):
        result = merge(lines("1 2 3 4 5"), lines("1 x 3 4 5"), lines("1 2 y 5"), show_base=True)
        self.assertEqual(
            result.text, "1\n<<<<<<< ours\nx\n3\n4\n||||||| base\n2\n3\n4\n=======\n2\ny\n>>>>>>> theirs\n5\n"
        )

    def test_an_insertion_has_an_empty_base(self):
        result = merge(lines("1"), lines("1 x"), lines("1 y"), show_base=True)
        self.assertEqual(result.text, "1\n<<<<<<< ours\nx\n||||||| base\n=======\ny\n>>>>>>> theirs\n")


class LineEndTest(unittest.TestCase):
    def test_no_line_end_at_the_end(self):
        self.assertEqual(merge("1\n2", "1\nx", "1\ny").text, "1\n<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n")
        self.assertEqual(merge("1", "x\n", "y").text, "<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n")
        self.assertEqual(merge("1", "", "y").text, "<<<<<<< ours\n=======\ny\n>>>>>>> theirs\n")

    def test_without_a_conflict_it_stays_so(self):
        self.assertEqual(merge("1\n2\n3", "x\n2\n3", "1\n2\n3").text, "x\n2\n3")
        self.assertEqual(merge("1\n2\n3\n", "x\n2\n3\n", "1\n2\n3").text, "x\n2\n3")
        self.assertEqual(merge("", "x", "").text, "x")

    def test_only_the_line_end_differs(self):
        result = merge("1\n2\n", "1\n2", "1\n3\n")
        self.assertEqual((result.text, result.conflicts), ("1\n<<<<<<< ours\n2\n=======\n3\n>>>>>>> theirs\n", 1))

    def test_a_common_last_line_without_an_end(self):
        result = merge("o", "a\nz", "b\nz")
        self.assertEqual(result.text, "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\nz")

    def test_base_without_a_line_end_in_a_conflict(self):
        self.assertEqual(
            merge("1", "2", "3", show_base=True).text, "<<<<<<< ours\n2\n||||||| base\n1\n=======\n3\n>>>>>>> theirs\n"
        )

    def test_dos(self):
        self.assertEqual(
            merge("1\r\n2\r\n", "1\r\nx\r\n", "1\r\ny\r\n").text,
            "1\r\n<<<<<<< ours\r\nx\r\n=======\r\ny\r\n>>>>>>> theirs\r\n",
        )

    def test_dos_without_a_line_end_at_the_end(self):
        self.assertEqual(
            merge("1\r\n2", "1\r\nx", "1\r\ny").text, "1\r\n<<<<<<< ours\r\nx\r\n=======\r\ny\r\n>>>>>>> theirs\r\n"
        )

    def test_the_first_version_that_has_a_line_end_decides(self):
        self.assertEqual(merge("", "x\r\n", "y\n").text, "<<<<<<< ours\r\nx\r\n=======\r\ny\n>>>>>>> theirs\r\n")
        self.assertEqual(merge("1", "x", "y\r\n").text, "<<<<<<< ours\r\nx\r\n=======\r\ny\r\n>>>>>>> theirs\r\n")

    def test_a_change_of_line_ends_is_a_change(self):
        self.assertEqual(merge("1\n2\n3\n", "1\n2\r\n3\n", "1\n2\n3\n").text, "1\n2\r\n3\n")

    def test_other_separators_do_not_end_lines(self):
        for char in "\f\v\x1c\x85\u2028\r":
            base = f"a{char}b\n2\n3\n"
            result = merge(base, f"a{char}x\n2\n3\n", f"y{char}b\n2\n3\n")
            self.assertEqual(result.text, f"<<<<<<< ours\na{char}x\n=======\ny{char}b\n>>>>>>> theirs\n2\n3\n", repr(char))
            self.assertEqual(merge(base, base, base + "z\n").text, base + "z\n")


class LawTest(unittest.TestCase):
    def test_small_texts(self):
        versions = ["".join(v) for n in range(4) for v in itertools.product(("a\n", "b\n"), repeat=n)]
        versions += ["a", "b", "a\nb", "b\na"]
        for base in versions:
            for one in versions:
                self.assertEqual(merge(base, one, base).text, one)
                self.assertEqual(merge(base, base, one).text, one)
                self.assertEqual((merge(base, one, one).text, merge(base, one, one).conflicts), (one, 0))
                for other in versions:
                    self.check_sides(base, one, other)

    def check_sides(self, base, one, other):
        """Taking one side of all conflicts gives back everything that this side has changed there."""
        result, mirrored = merge(base, one, other), merge(base, other, one)
        label = repr((base, one, other))
        self.assertEqual(result.conflicts, mirrored.conflicts, label)
        self.assertEqual(self.pick(result.text, 0), self.pick(mirrored.text, 1), label)
        self.assertEqual(self.pick(result.text, 1), self.pick(mirrored.text, 0), label)
        self.assertEqual(result.text.count("<<<<<<<"), result.conflicts, label)
        if one == base or other == base or one == other:
            self.assertEqual(result.conflicts, 0, label)

    def pick(self, text, side):
        kept, state = [], None
        for line in text.split("\n"):
            if line.startswith("<<<<<<<"):
                state = 0
            elif line.startswith("======="):
                state = 1
            elif line.startswith(">>>>>>>"):
                state = None
            elif state is None or state == side:
                kept.append(line)
        return kept

    def test_random_texts(self):
        """Versions with distinct lines, against the definition of a region, done line by line."""
        seed = 4
        for case in range(400):
            size = 8
            sides = []
            for tag in "xy":
                version = []
                for number in range(size + 1):
                    seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
                    choice = (seed >> 33) % 12
                    if choice == 0:
                        version.append((number, "insert", [f"{tag}i{number}\n"]))
                    elif choice in (1, 2) and number < size:
                        version.append((number, "replace", [f"{tag}r{number}\n"]))
                    elif choice == 3 and number < size:
                        version.append((number, "replace", []))
                sides.append(version)
            base = [f"{n}\n" for n in range(size)]
            expected = self.by_definition(base, sides)
            result = merge("".join(base), *("".join(self.made(base, side, 0, size)) for side in sides))
            self.assertEqual(result.text, expected, f"case {case}: {sides}")

    def made(self, base, edits, start, end):
        """The lines from `start` up to `end` with these edits."""
        edits = {(number, kind): new for number, kind, new in edits}
        out = []
        for number in range(start, end + 1):
            out += edits.get((number, "insert"), [])
            if number < end:
                out += edits.get((number, "replace"), [base[number]])
        return out

    def by_definition(self, base, sides):
        size = len(base)
        touched = [[False] * size for _ in sides]
        points = [[False] * (size + 1) for _ in sides]
        for side, edits in enumerate(sides):
            for number, kind, _ in edits:
                if kind == "replace":
                    touched[side][number] = True
                    points[side][number] = points[side][number + 1] = True
                else:
                    points[side][number] = True
        out, position = [], 0
        while position <= size:
            if not (points[0][position] or points[1][position]):
                out += base[position : position + 1]
                position += 1
                continue
            end = position
            while end < size and (touched[0][end] or touched[1][end]):
                end += 1
            changed = [
                [e for e in sides[s] if (e[1] == "replace" and position <= e[0] < end) or (e[1] == "insert" and position <= e[0] <= end)]
                for s in (0, 1)
            ]
            one, other = (self.made(base, changed[s], position, end) for s in (0, 1))
            if not changed[1] or one == other:
                out += one
            elif not changed[0]:
                out += other
            else:
                head = 0
                while head < min(len(one), len(other)) and one[head] == other[head]:
                    head += 1
                tail = 0
                while tail < min(len(one), len(other)) - head and one[-1 - tail] == other[-1 - tail]:
                    tail += 1
                out += one[:head] + ["<<<<<<< ours\n"] + one[head : len(one) - tail] + ["=======\n"]
                out += other[head : len(other) - tail] + [">>>>>>> theirs\n"] + one[len(one) - tail :]
            out += base[end : end + 1]
            position = end + 1
        return "".join(out)


class CommandTest(unittest.TestCase):
    def run_main(self, *texts, options=()):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, text in zip(("base", "ours", "theirs"), texts):
                paths.append(os.path.join(folder, name))
                if text is not None:
                    with open(paths[-1], "wb") as file:
                        file.write(text)
            out, err = io.BytesIO(), io.StringIO()
            code = main([*options, *paths], out, err)
            return code, out.getvalue(), err.getvalue()

    def test_exit_codes(self):
        self.assertEqual(self.run_main(b"1\n", b"2\n", b"1\n"), (0, b"2\n", ""))
        self.assertEqual(self.run_main(b"1\n", b"2\n", b"3\n")[0], 1)
        code, out, err = self.run_main(b"1\n", None, b"3\n")
        self.assertEqual((code, out), (2, b""))
        self.assertIn("ours", err)

    def test_bytes_that_are_not_utf_8(self):
        self.assertEqual(self.run_main(b"\xff\n1\n", b"\xff\n2\n", b"\xff\n1\n"), (0, b"\xff\n2\n", ""))

    def test_base(self):
        self.assertEqual(
            self.run_main(b"1\r\n", b"2\r\n", b"3\r\n", options=["--base"])[1],
            b"<<<<<<< ours\r\n2\r\n||||||| base\r\n1\r\n=======\r\n3\r\n>>>>>>> theirs\r\n",
        )


if __name__ == "__main__":
    unittest.main()
