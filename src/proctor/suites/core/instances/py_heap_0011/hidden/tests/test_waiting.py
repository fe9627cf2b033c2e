import gc
import unittest

from triage import Desk, WaitingList


class Priority:
    """Can only be compared with <, and counts how often it is."""

    comparisons = 0
    __slots__ = ("value", "__weakref__")

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        Priority.comparisons += 1
        return self.value < other.value

    def __eq__(self, other):
        raise AssertionError("priorities must not be compared with ==")

    __hash__ = None


class Name:
    """Counts how often it is compared with another one."""

    comparisons = 0
    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        Name.comparisons += 1
        return self.text == other.text

    def __hash__(self):
        return hash(self.text)


def numbers(seed):
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 33


class OrderTest(unittest.TestCase):
    def test_small(self):
        ward = WaitingList()
        for name, priority in (("ann", 5), ("bob", 2), ("cem", 5)):
            ward.add(name, priority)
        self.assertEqual(ward.names(), ["bob", "ann", "cem"])
        self.assertEqual((len(ward), "ann" in ward, "dan" in ward), (3, True, False))
        ward.change("cem", 1)
        self.assertEqual((ward.peek(), ward.next()), ("cem", "cem"))
        ward.change("bob", 5)
        self.assertEqual(ward.names(), ["ann", "bob"])
        self.assertEqual(ward.priority("bob"), 5)
        ward.leave("ann")
        self.assertEqual(ward.names(), ["bob"])

    def test_a_change_does_not_cost_the_place_among_equals(self):
        ward = WaitingList()
        for name in "abcd":
            ward.add(name, 1)
        ward.change("a", 9)
        ward.change("a", 1)
        ward.change("c", 1)
        ward.change("b", 0)
        ward.change("b", 1)
        self.assertEqual([ward.next() for _ in range(4)], list("abcd"))

    def test_who_comes_back_waits_anew(self):
        ward = WaitingList()
        for name in "abc":
            ward.add(name, 1)
        ward.leave("a")
        ward.add("a", 1)
        self.assertEqual(ward.next(), "b")
        ward.add("b", 1)
        self.assertEqual(ward.names(), ["c", "a", "b"])

    def test_errors(self):
        ward = WaitingList()
        with self.assertRaises(LookupError):
            ward.next()
        with self.assertRaises(LookupError):
            ward.peek()
        ward.add("a", 1)
        with self.assertRaises(ValueError):
            ward.add("a", 2)
        for call in (lambda: ward.leave("x"), lambda: ward.change("x", 1), lambda: ward.priority("x")):
            with self.assertRaises(KeyError):
                call()
        self.assertEqual(ward.names(), ["a"])
        self.assertEqual(ward.priority("a"), 1)

    def test_looking_changes_nothing(self):
        ward = WaitingList()
        for name, priority in zip("abcdefgh", (3, 1, 3, 2, 1, 2, 3, 1)):
            ward.add(name, priority)
        self.assertEqual(ward.names(), list("behdfacg"))
        self.assertEqual(ward.names(), list("behdfacg"))
        self.assertEqual(len(ward), 8)
        self.assertEqual([ward.next() for _ in range(8)], list("behdfacg"))

    def test_names_that_cannot_be_ordered(self):
        ward = WaitingList()
        for name in (None, (1, "x"), "y", 3, 2.5):
            ward.add(name, 1)
        self.assertEqual([ward.next() for _ in range(5)], [None, (1, "x"), "y", 3, 2.5])

    def test_long_histories_agree_with_a_plain_model(self):
        chance = numbers(5)
        ward, model, ticket = WaitingList(), {}, 0
        for step in range(4000):
            name, priority, action = next(chance) % 25, next(chance) % 6, next(chance) % 8
            if action == 0 and model:
                expected = min(model, key=model.get)
                self.assertEqual(ward.peek(), expected, step)
                self.assertEqual(ward.next(), expected, step)
                del model[expected]
            elif action == 1 and name in model:
                ward.leave(name)
                del model[name]
            elif name in model:
                ward.change(name, priority)
                model[name] = (priority, model[name][1])
            else:
                ward.add(name, priority)
                model[name] = (priority, ticket)
                ticket += 1
            if step % 40 == 0:
                self.assertEqual(ward.names(), sorted(model, key=model.get), step)
            self.assertEqual(len(ward), len(model))


class EffortTest(unittest.TestCase):
    SIZE = 512
    LOGARITHM = 9

    def setUp(self):
        self.ward = WaitingList()
        self.names = [Name(n) for n in range(self.SIZE)]
        chance = numbers(17)
        for name in self.names:
            self.ward.add(name, Priority(next(chance)))
        self.chance = chance
        self.reset()

    def reset(self):
        Priority.comparisons = Name.comparisons = 0

    def assertCheap(self, operations):
        # Two comparisons per pair and level, on the way up and down, is four times the logarithm; twice that is generous.
        self.assertLessEqual(Priority.comparisons, 8 * self.LOGARITHM * operations)
        self.assertLessEqual(Name.comparisons, 4 * operations)

    def test_add_in_rising_order(self):
        ward = WaitingList()
        for n in range(self.SIZE):
            ward.add(Name(n), Priority(n))
        self.assertCheap(self.SIZE)

    def test_add_in_falling_order(self):
        ward = WaitingList()
        for n in range(self.SIZE):
            ward.add(Name(n), Priority(-n))
        self.assertCheap(self.SIZE)

    def test_next(self):
        for _ in range(self.SIZE):
            self.ward.next()
        self.assertCheap(self.SIZE)

    def test_change(self):
        for n in range(2000):
            self.ward.change(Name(next(self.chance) % self.SIZE), Priority(next(self.chance)))
        self.assertCheap(2000)

    def test_change_and_next_in_turns(self):
        for n in range(500):
            first = self.ward.next()
            self.ward.add(first, Priority(next(self.chance)))
            self.ward.change(self.names[n], Priority(next(self.chance)))
        self.assertCheap(1500)

    def test_leave(self):
        for n in range(0, self.SIZE, 2):
            self.ward.leave(Name(n))
        self.assertCheap(self.SIZE // 2)
        self.assertEqual(len(self.ward), self.SIZE // 2)

    def test_looking_costs_no_comparison(self):
        self.ward.change(self.names[7], Priority(-5))
        self.ward.leave(self.ward.peek())
        self.reset()
        for _ in range(100):
            self.ward.peek()
            len(self.ward)
            self.names[3] in self.ward
        self.assertEqual(Priority.comparisons, 0)
        self.assertLessEqual(Name.comparisons, 100)

    def test_many_changes_leave_nothing_behind(self):
        ward = WaitingList()
        for n in range(50):
            ward.add(n, Priority(n))
        for n in range(5000):
            ward.change(n % 50, Priority(n))
        for n in range(50, 2000):
            ward.add(n, Priority(n))
            ward.leave(n)
        gc.collect()
        alive = sum(isinstance(thing, Priority) for thing in reachable(ward))
        self.assertLessEqual(alive, 250)


def reachable(root):
    seen, todo = {}, [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen[id(thing)] = thing
        todo.extend(gc.get_referents(thing))
    return list(seen.values())


class DeskTest(unittest.TestCase):
    def test_calls(self):
        desk = Desk()
        desk.arrive("ann")
        desk.arrive("bob", "red")
        desk.arrive("cem", "yellow")
        desk.reassess("ann", "red")
        desk.go_home("cem")
        self.assertEqual(desk.board(), ["ann", "bob"])
        self.assertEqual([desk.call(), desk.call(), desk.call()], ["ann", "bob", None])

    def test_several_at_once(self):
        desk = Desk()
        for patient in "abc":
            desk.arrive(patient)
        desk.reassess_all({"c": "red", "a": "blue"})
        self.assertEqual(desk.board(), ["c", "b", "a"])
        for bad in ({"a": "red", "x": "red"}, {"a": "red", "b": "pink"}):
            with self.assertRaises(KeyError):
                desk.reassess_all(bad)
        self.assertEqual(desk.board(), ["c", "b", "a"])


if __name__ == "__main__":
    unittest.main()
