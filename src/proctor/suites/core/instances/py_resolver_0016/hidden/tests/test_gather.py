import contextlib
import sys
import unittest

from gather import Conflict, Index, Range, resolve


def index_of(*packages):
    """From lines like 'web 2.1.0: json ^2, log *'."""
    index = Index()
    for text in packages:
        head, _, requirements = text.partition(":")
        name, version = head.split()
        requires = dict(part.strip().split(" ", 1) for part in requirements.split(",") if part.strip())
        index.publish(name, version, requires)
    return index


@contextlib.contextmanager
def budget(calls):
    """Stops what is inside when it makes more function calls than this."""
    left = [calls]

    def count(frame, event, argument):
        if event in ("call", "c_call"):
            left[0] -= 1
            if left[0] < 0:
                sys.setprofile(None)
                raise AssertionError(f"more than {calls} function calls")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


def by_definition(wanted, index):
    """The rule of the README, word by word, without any cleverness."""

    def needs(chosen):
        order, seen = list(wanted), set(wanted)
        for name in order:
            if name not in chosen:
                break
            for other in index.requirements(name, chosen[name]):
                if other not in seen:
                    seen.add(other)
                    order.append(other)
        return order

    def holds(chosen):
        for name, version in chosen.items():
            if name in wanted and version not in Range(wanted[name]):
                return False
            for other, range in index.requirements(name, version).items():
                if other in chosen and chosen[other] not in range:
                    return False
        return True

    def search(chosen):
        order = needs(chosen)
        if len(order) == len(chosen):
            return chosen
        name = order[len(chosen)]
        for version in index.versions(name):
            more = dict(chosen, **{name: version})
            if holds(more):
                found = search(more)
                if found is not None:
                    return found
        return None

    found = search({})
    return None if found is None else {name: str(version) for name, version in found.items()}


class EasyTest(unittest.TestCase):
    def test_newest_that_fits(self):
        index = index_of("web 2.1.0: json ^1.2, log *", "json 1.2.5", "json 1.2.9", "json 2.0.0", "log 0.9.0", "extra 1.0.0")
        self.assertEqual(resolve({"web": "^2.0"}, index), {"json": "1.2.9", "log": "0.9.0", "web": "2.1.0"})

    def test_nothing(self):
        self.assertEqual(resolve({}, Index()), {})

    def test_no_solution(self):
        index = index_of("a 1.0.0: c ^1", "b 1.0.0: c ^2", "c 1.0.0", "c 2.0.0")
        with self.assertRaises(Conflict):
            resolve({"a": "*", "b": "*"}, index)
        with self.assertRaises(Conflict):
            resolve({"nobody": "*"}, index)
        with self.assertRaises(Conflict):
            resolve({"a": "^2"}, index)

    def test_circles(self):
        index = index_of("a 1.0.0: b ^1", "b 1.0.0: a ^1", "c 1.0.0: c ^1")
        self.assertEqual(resolve({"a": "*", "c": "*"}, index), {"a": "1.0.0", "b": "1.0.0", "c": "1.0.0"})


class SolutionTest(unittest.TestCase):
    def test_an_older_version_of_what_was_asked_for(self):
        index = index_of("web 2.1.0: json ^2", "web 2.0.0: json ^1", "auth 1.0.0: json ^1", "json 1.0.0", "json 2.0.0")
        self.assertEqual(resolve({"web": "*", "auth": "*"}, index), {"web": "2.0.0", "auth": "1.0.0", "json": "1.0.0"})

    def test_what_is_asked_for_first_gets_the_newest(self):
        index = index_of("a 1.0.0: c ^1", "a 2.0.0: c ^2", "b 1.0.0: c ^1", "b 2.0.0: c ^2", "b 3.0.0: c ^1", "c 1.0.0", "c 2.0.0")
        self.assertEqual(resolve({"a": "*", "b": "*"}, index), {"a": "2.0.0", "b": "2.0.0", "c": "2.0.0"})
        self.assertEqual(resolve({"b": "*", "a": "*"}, index), {"a": "1.0.0", "b": "3.0.0", "c": "1.0.0"})

    def test_a_clash_far_below(self):
        index = index_of(
            "top 2.0.0: one *", "top 1.0.0: one ^1", "one 2.0.0: two *", "one 1.0.0: two *", "two 2.0.0: three ^2", "two 1.0.0: three ^1",
            "three 1.0.0", "three 2.0.0: four ^3", "four 1.0.0", "four 3.0.0: top ^1",
        )
        self.assertEqual(
            resolve({"top": "*"}, index), {"top": "2.0.0", "one": "2.0.0", "two": "1.0.0", "three": "1.0.0"}
        )

    def test_a_package_that_nobody_published(self):
        index = index_of("lib 1.3.0: jsonn *", "lib 1.2.0: json *", "json 1.0.0", "app 1.0.0: lib ^1")
        self.assertEqual(resolve({"app": "*"}, index), {"app": "1.0.0", "lib": "1.2.0", "json": "1.0.0"})

    def test_what_is_not_needed_any_more_is_not_in_the_result(self):
        index = index_of("a 2.0.0: helper *, b ^2", "a 1.0.0: b ^1", "helper 1.0.0: deep *", "deep 1.0.0", "b 1.0.0", "b 2.0.0: gone *")
        self.assertEqual(resolve({"a": "*"}, index), {"a": "1.0.0", "b": "1.0.0"})

    def test_a_requirement_on_something_decided_already(self):
        index = index_of("a 2.0.0", "a 1.0.0", "b 2.0.0: a ^1", "b 1.0.0: a *")
        self.assertEqual(resolve({"a": "*", "b": "*"}, index), {"a": "2.0.0", "b": "1.0.0"})
        self.assertEqual(resolve({"b": "*", "a": "*"}, index), {"a": "1.0.0", "b": "2.0.0"})

    def test_a_circle_that_asks_for_another_version(self):
        index = index_of("a 2.0.0: b *", "a 1.0.0: b *", "b 1.0.0: a ^1", "self 2.0.0: self ^1", "self 1.0.0")
        self.assertEqual(resolve({"a": "*"}, index), {"a": "1.0.0", "b": "1.0.0"})
        self.assertEqual(resolve({"self": "*"}, index), {"self": "1.0.0"})

    def test_the_same_call_twice(self):
        index = index_of("web 2.1.0: json ^2", "web 2.0.0: json ^1", "auth 1.0.0: json ^1", "json 1.0.0", "json 2.0.0")
        wanted = {"web": "*", "auth": "*"}
        self.assertEqual(resolve(wanted, index), resolve(wanted, index))
        self.assertEqual(wanted, {"web": "*", "auth": "*"})

    def test_random_indexes_agree_with_the_definition(self):
        seed = 1
        solved = failed = 0
        for case in range(250):
            texts = []
            names = "abcdef"
            for name in names:
                for version in range(1, 4):
                    requirements = []
                    for _ in range(2):
                        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
                        other = (names + "x")[(seed >> 33) % 7]
                        if (seed >> 40) % 3 and other not in [r.split()[0] for r in requirements]:
                            wish = ("^1", "^2", "^3", "*", "<3", ">1")[(seed >> 45) % 6]
                            if other != "x" or (seed >> 50) % 4 == 0:
                                requirements.append(f"{other} {wish}")
                    texts.append(f"{name} {version}.0.0: {', '.join(requirements)}")
            index = index_of(*texts)
            wanted = {"a": "*", "b": "*", "f": ">1"}
            expected = by_definition(wanted, index)
            try:
                got = resolve(wanted, index)
            except Conflict:
                got = None
            self.assertEqual(got, expected, f"case {case}: {texts}")
            solved += got is not None
            failed += got is None
        self.assertGreater(min(solved, failed), 20)


class EffortTest(unittest.TestCase):
    def bystanders(self, count, versions):
        return [f"by{n:02d} {v}.0.0" for n in range(count) for v in range(1, versions + 1)]

    def test_two_that_do_not_get_along_with_many_bystanders_between(self):
        index = index_of(
            *self.bystanders(36, 10),
            *[f"first {v}.0.0" for v in range(1, 11)],
            *[f"last {v}.0.0: first ^3" for v in range(1, 11)],
        )
        wanted = dict({"first": "*"}, **{f"by{n:02d}": "*" for n in range(36)}, last="*")
        with budget(1_000_000):
            result = resolve(wanted, index)
        self.assertEqual((result["first"], result["last"], result["by07"], len(result)), ("3.0.0", "10.0.0", "10.0.0", 38))

    def test_failing_with_many_bystanders(self):
        index = index_of(
            *self.bystanders(36, 10),
            *[f"first {v}.0.0: base ^1" for v in range(1, 11)],
            *[f"last {v}.0.0: base ^2" for v in range(1, 11)],
            "base 1.0.0",
            "base 2.0.0",
        )
        wanted = dict({"first": "*"}, **{f"by{n:02d}": "*" for n in range(36)}, last="*")
        with budget(2_000_000):
            with self.assertRaises(Conflict):
                resolve(wanted, index)

    def test_bystanders_that_come_in_later(self):
        others = ", ".join(f"by{n:02d} *" for n in range(36))
        index = index_of(
            *self.bystanders(36, 5),
            *[f"app {v}.0.0: core ^{v}, {others}, end *" for v in range(1, 6)],
            *[f"core {v}.{minor}.0" for v in range(1, 6) for minor in range(4)],
            *[f"end {v}.0.0: deep *" for v in range(1, 6)],
            *[f"deep {v}.0.0: core <2.2" for v in range(1, 6)],
        )
        with budget(2_000_000):
            result = resolve({"app": "*"}, index)
        self.assertEqual(
            [result[name] for name in ("app", "core", "end", "deep", "by35")], ["2.0.0", "2.1.0", "5.0.0", "5.0.0", "5.0.0"]
        )

    def test_a_long_chain(self):
        index = index_of(*[f"p{n} 1.0.0: p{n + 1} *" for n in range(1500)], "p1500 1.0.0")
        self.assertEqual(len(resolve({"p0": "*"}, index)), 1501)


if __name__ == "__main__":
    unittest.main()
