import os
import struct
import tempfile
import unittest
import zlib

from quay import Damaged, FileDisk, Store


class PowerCut(Exception):
    pass


class Disk:
    """Files in memory; the power can be cut at any moment."""

    def __init__(self, files=None):
        self.files = {name: bytearray(data) for name, data in (files or {}).items()}
        self.safe = {name: len(data) for name, data in self.files.items()}
        self.left = None  # operations until the power is cut

    def _change(self):
        if self.left is not None:
            if self.left == 0:
                raise PowerCut
            self.left -= 1

    def names(self):
        return sorted(self.files)

    def read(self, name):
        if name not in self.files:
            raise FileNotFoundError(name)
        return bytes(self.files[name])

    def create(self, name):
        self._change()
        self.files[name] = bytearray()
        self.safe[name] = 0

    def append(self, name, data):
        if name not in self.files:
            raise FileNotFoundError(name)
        try:
            self._change()
        except PowerCut:
            self.files[name] += data[: len(data) // 2]
            raise
        self.files[name] += data

    def truncate(self, name, size):
        self._change()
        del self.files[name][size:]
        self.safe[name] = len(self.files[name])

    def sync(self, name):
        self._change()
        self.safe[name] = len(self.files[name])

    def rename(self, old, new):
        self._change()
        self.files[new] = self.files.pop(old)
        self.safe[new] = self.safe.pop(old)

    def remove(self, name):
        self._change()
        if name not in self.files:
            raise FileNotFoundError(name)
        del self.files[name], self.safe[name]

    def after_power_cut(self, kept):
        """The disk after a restart; `kept` is the part of what was not safe that has survived."""
        return Disk(
            {
                name: data[: self.safe[name] + int((len(data) - self.safe[name]) * kept)]
                for name, data in self.files.items()
            }
        )


def contents(store):
    return {key: store.get(key) for key in store.keys()}


def record(key, value):
    rest = struct.pack(">HI", len(key), 0xFFFFFFFF if value is None else len(value)) + key + (value or b"")
    return struct.pack(">I", zlib.crc32(rest)) + rest


class BasicsTest(unittest.TestCase):
    def test_put_get_delete(self):
        store = Store(Disk())
        store.put(b"ship", b"Aurora")
        store.put(b"port", b"Oslo")
        store.put(b"ship", b"Boreas")
        self.assertTrue(store.delete(b"port"))
        self.assertFalse(store.delete(b"port"))
        self.assertEqual((store.get(b"ship"), store.get(b"port"), store.get(b"port", b"-")), (b"Boreas", None, b"-"))
        self.assertEqual((store.keys(), len(store), b"ship" in store, b"port" in store), ([b"ship"], 1, True, False))

    def test_reopen(self):
        disk = Disk()
        store = Store(disk, limit=50)
        for number in range(40):
            store.put(b"key%d" % (number % 7), b"value %d" % number)
            if number % 5 == 4:
                store.delete(b"key%d" % (number % 7))
        self.assertGreater(len(store.segments()), 5)
        self.assertEqual(contents(Store(disk, limit=50)), contents(store))

    def test_the_format(self):
        disk = Disk()
        store = Store(disk)
        store.put(b"ab", b"xyz")
        store.delete(b"ab")
        self.assertEqual(disk.read("000001.seg"), record(b"ab", b"xyz") + record(b"ab", None))
        self.assertEqual(disk.read("MANIFEST"), b"000001.seg\n")

    def test_files_of_old(self):
        disk = Disk(
            {
                "000002.seg": record(b"a", b"1") + record(b"b", b"2"),
                "000007.seg": record(b"a", None) + record(b"c", b"3"),
                "000004.seg": record(b"b", b"4") + record(b"c", b"0"),
                "MANIFEST": b"000002.seg\n000007.seg\n000004.seg\n",
            }
        )
        store = Store(disk)
        self.assertEqual(contents(store), {b"b": b"4", b"c": b"0"})
        store.put(b"d", b"5")
        self.assertEqual(contents(Store(disk)), {b"b": b"4", b"c": b"0", b"d": b"5"})

    def test_damage_in_an_older_segment(self):
        disk = Disk({"000001.seg": record(b"a", b"1")[:-1], "000002.seg": b"", "MANIFEST": b"000001.seg\n000002.seg\n"})
        with self.assertRaises(Damaged):
            Store(disk)

    def test_bad_arguments(self):
        store = Store(Disk())
        with self.assertRaises(ValueError):
            store.put(b"k" * 65536, b"")
        with self.assertRaises(ValueError):
            store.put(b"k", None)
        self.assertEqual(contents(store), {})

    def test_real_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "data")
            store = Store(FileDisk(path), limit=40)
            for number in range(12):
                store.put(b"k%d" % (number % 4), b"v%d" % number)
            store.delete(b"k1")
            store.compact()
            expected = {b"k0": b"v8", b"k2": b"v10", b"k3": b"v11"}
            self.assertEqual(contents(store), expected)
            self.assertEqual(contents(Store(FileDisk(path), limit=40)), expected)
            self.assertEqual(sorted(os.listdir(path)), sorted(["MANIFEST"] + store.segments()))


class EmptyTest(unittest.TestCase):
    def test_an_empty_value_is_a_value(self):
        disk = Disk()
        store = Store(disk, limit=10)
        store.put(b"flag", b"")
        store.put(b"", b"no key")
        store.put(b"other", b"x")
        self.assertEqual(contents(Store(disk, limit=10)), {b"": b"no key", b"flag": b"", b"other": b"x"})
        store = Store(disk, limit=10)
        store.put(b"more", b"y")
        store.compact()
        self.assertEqual(contents(store), {b"": b"no key", b"flag": b"", b"more": b"y", b"other": b"x"})
        self.assertEqual(contents(Store(disk)), contents(store))

    def test_an_empty_value_over_another_one(self):
        disk = Disk()
        store = Store(disk)
        store.put(b"flag", b"on")
        store.put(b"flag", b"")
        self.assertEqual(contents(Store(disk)), {b"flag": b""})


class CompactTest(unittest.TestCase):
    def filled(self, *segments, newest=()):
        """A store whose segments have just these records."""
        files = {}
        names = []
        for number, pairs in enumerate(list(segments) + [newest], 1):
            names.append(f"{number:06d}.seg")
            files[names[-1]] = b"".join(record(key, value) for key, value in pairs)
        files["MANIFEST"] = "".join(name + "\n" for name in names).encode()
        self.disk = Disk(files)
        return Store(self.disk)

    def check(self, store, expected):
        self.assertEqual(contents(store), expected)
        self.assertEqual(contents(Store(Disk(self.disk.files))), expected)
        self.assertEqual(sorted(self.disk.files), sorted(["MANIFEST"] + store.segments()))

    def bytes_of(self, store):
        return b"".join(self.disk.read(name) for name in store.segments())

    def test_one_record_per_key(self):
        store = self.filled([(b"a", b"1"), (b"b", b"2")], [(b"a", b"3")], [(b"a", b"4"), (b"c", b"5")], newest=[(b"d", b"6")])
        store.compact()
        self.check(store, {b"a": b"4", b"b": b"2", b"c": b"5", b"d": b"6"})
        self.assertEqual(len(store.segments()), 2)
        self.assertEqual(len(self.bytes_of(store)), 4 * len(record(b"a", b"1")))

    def test_newer_values_stay_newer(self):
        store = self.filled([(b"a", b"old"), (b"b", b"old")], [(b"c", b"old")], newest=[(b"a", b"new"), (b"c", None)])
        store.compact()
        self.check(store, {b"a": b"new", b"b": b"old"})
        store.put(b"b", b"newer")
        self.check(store, {b"a": b"new", b"b": b"newer"})
        store.compact()
        self.check(store, {b"a": b"new", b"b": b"newer"})

    def test_the_newest_segment_is_still_the_one_that_is_written_to(self):
        store = self.filled([(b"a", b"1")], [(b"b", b"2")], newest=[(b"c", b"3")])
        newest = store.segments()[-1]
        store.compact()
        self.assertEqual(store.segments()[-1], newest)
        store.put(b"d", b"4")
        self.assertEqual(self.disk.read(newest), record(b"c", b"3") + record(b"d", b"4"))

    def test_deleted_keys_leave_nothing_behind(self):
        store = self.filled([(b"a", b"1"), (b"secret", b"2")], [(b"secret", None), (b"b", None)], newest=[(b"c", b"3")])
        store.compact()
        self.check(store, {b"a": b"1", b"c": b"3"})
        self.assertNotIn(b"secret", self.bytes_of(store))

    def test_nothing_is_left_at_all(self):
        store = self.filled([(b"a", b"1")], [(b"a", None)], newest=[(b"c", b"3")])
        store.compact()
        self.check(store, {b"c": b"3"})

    def test_skipped_segments_are_not_touched(self):
        store = self.filled([(b"a", b"1"), (b"b", b"2")], [(b"b", b"3")], [(b"b", b"4"), (b"c", b"5")], newest=[])
        first = store.segments()[0]
        store.compact(skip=1)
        self.check(store, {b"a": b"1", b"b": b"4", b"c": b"5"})
        self.assertEqual((store.segments()[0], len(store.segments())), (first, 3))

    def test_deleted_keys_stay_deleted_behind_skipped_segments(self):
        store = self.filled([(b"a", b"1"), (b"b", b"2")], [(b"a", None)], [(b"c", b"3")], newest=[(b"d", b"4")])
        store.compact(skip=1)
        self.check(store, {b"b": b"2", b"c": b"3", b"d": b"4"})
        store.compact(skip=1)
        self.check(store, {b"b": b"2", b"c": b"3", b"d": b"4"})
        store.compact()
        self.check(store, {b"b": b"2", b"c": b"3", b"d": b"4"})
        self.assertNotIn(record(b"a", None), self.bytes_of(store))

    def test_deleted_and_put_again(self):
        store = self.filled([(b"a", b"1")], [(b"a", None)], [(b"a", b"2")], newest=[])
        store.compact(skip=1)
        self.check(store, {b"a": b"2"})

    def test_nothing_to_do(self):
        store = self.filled([(b"a", b"1")], newest=[(b"b", b"2")])
        for skip in (1, 2, 9):
            before = dict(self.disk.files)
            store.compact(skip=skip)
            self.assertEqual(self.disk.files, before)
        fresh = Store(Disk())
        fresh.compact()
        self.assertEqual(contents(fresh), {})

    def test_again_and_again(self):
        self.disk = Disk()
        store, model, seed = Store(self.disk, limit=60), {}, 5
        for step in range(600):
            seed = (seed * 1103515245 + 12345) % 2**31
            key, action = b"k%d" % ((seed >> 8) % 9), (seed >> 16) % 12
            if action < 7:
                model[key] = b"v%d" % (step if action else 0) * (action % 3)
                store.put(key, model[key])
            elif action < 10:
                self.assertEqual(store.delete(key), key in model)
                model.pop(key, None)
            elif action == 10:
                store.compact(skip=(seed >> 20) % 4)
            else:
                store = Store(self.disk, limit=60)
            self.assertEqual(contents(store), model, f"step {step}")
        self.assertEqual(contents(Store(self.disk)), model)
        self.assertEqual(sorted(self.disk.files), sorted(["MANIFEST"] + store.segments()))


class LeftOverTest(unittest.TestCase):
    def test_files_that_do_not_count_are_removed(self):
        disk = Disk(
            {
                "000001.seg": record(b"a", b"1"),
                "000002.seg": record(b"a", b"left over"),
                "000009.seg": b"garbage",
                "MANIFEST": b"000001.seg\n",
            }
        )
        store = Store(disk)
        self.assertEqual(contents(store), {b"a": b"1"})
        self.assertEqual(disk.names(), ["000001.seg", "MANIFEST"])

    def test_left_overs_do_not_come_back(self):
        disk = Disk({"000001.seg": record(b"a", b"1"), "000002.seg": record(b"a", b"left over"), "MANIFEST": b"000001.seg\n"})
        store = Store(disk, limit=1)
        store.put(b"b", b"2")
        store.put(b"c", b"3")
        self.assertEqual(contents(Store(disk)), {b"a": b"1", b"b": b"2", b"c": b"3"})


class TornTest(unittest.TestCase):
    def test_writes_after_a_torn_record_survive(self):
        whole = record(b"a", b"1")
        torn = record(b"b", b"a longer value")
        for size in range(1, len(torn)):
            disk = Disk({"000001.seg": whole + torn[:size], "MANIFEST": b"000001.seg\n"})
            store = Store(disk)
            self.assertEqual(contents(store), {b"a": b"1"})
            store.put(b"c", b"3")
            self.assertEqual(store.get(b"c"), b"3")
            again = Store(disk)
            self.assertEqual(contents(again), {b"a": b"1", b"c": b"3"}, f"{size} bytes")
            self.assertEqual(disk.read("000001.seg"), whole + record(b"c", b"3"))

    def test_a_wrong_checksum_at_the_end(self):
        data = bytearray(record(b"a", b"1") + record(b"b", b"2"))
        data[-1] ^= 1
        disk = Disk({"000001.seg": data, "MANIFEST": b"000001.seg\n"})
        Store(disk).put(b"c", b"3")
        self.assertEqual(contents(Store(disk)), {b"a": b"1", b"c": b"3"})


class PowerCutTest(unittest.TestCase):
    """Cuts the power before each single operation on the disk, in turn."""

    LIMIT = 45

    def actions(self):
        for number in range(9):
            yield "put", b"k%d" % (number % 4), b"value %d" % number
        yield "delete", b"k1"
        yield "put", b"k5", b""
        yield "compact", 0
        yield "put", b"k2", b"after"
        yield "delete", b"k0"
        yield "put", b"k6", b"more and more"
        yield "put", b"k7", b"and more still"
        yield "compact", 1
        yield "put", b"k1", b"back"
        yield "delete", b"k6"
        yield "put", b"k8", b"long enough for another one"
        yield "put", b"k9", b"long enough for another one"
        yield "compact", 0

    def model_after(self, model, action):
        after = dict(model)
        if action[0] == "put":
            after[action[1]] = action[2]
        elif action[0] == "delete":
            after.pop(action[1], None)
        return after

    def run_until_cut(self, operations):
        """The disk, and the states that are allowed afterwards; None if the power was not cut."""
        disk, before, after = Disk(), {}, {}
        disk.left = operations
        try:
            store = Store(disk, limit=self.LIMIT)
            for action in self.actions():
                before, after = after, self.model_after(after, action)
                getattr(store, action[0])(*action[1:])
                self.assertEqual(contents(store), after)
                before = after
        except PowerCut:
            return disk, (before, after)
        return None

    def check_open(self, disk, allowed, label):
        try:
            store = Store(disk, limit=self.LIMIT)
        except PowerCut:
            raise
        except Exception as error:
            self.fail(f"{label}: does not open: {error!r}")
        state = contents(store)
        self.assertIn(state, allowed, label)
        self.assertEqual(sorted(disk.files), sorted(["MANIFEST"] + store.segments()), label)
        return store, state

    def test_every_moment(self):
        operations = 0
        while True:
            cut = self.run_until_cut(operations)
            if cut is None:
                break
            disk, allowed = cut
            for kept in (0, 0.5, 1):
                label = f"cut after {operations} operations, {kept} kept"
                survivor = disk.after_power_cut(kept)
                store, state = self.check_open(survivor, allowed, label)
                # It goes on as if nothing had happened: also over the next restart, and through the next compaction.
                store.put(b"new", b"value")
                state[b"new"] = b"value"
                again, _ = self.check_open(Disk(survivor.files), [state], label + ", second restart")
                again.compact()
                self.assertEqual(contents(again), state, label)
            operations += 1
        self.assertGreater(operations, 60)

    def test_while_opening(self):
        # The power is cut again while the store is being repaired.
        operations = 0
        while True:
            cut = self.run_until_cut(operations)
            if cut is None:
                break
            disk, allowed = cut
            for second in range(6):
                survivor = disk.after_power_cut(0.5)
                survivor.left = second
                try:
                    Store(survivor, limit=self.LIMIT)
                except PowerCut:
                    pass
                except Exception as error:
                    self.fail(f"cut after {operations} operations: does not open: {error!r}")
                label = f"cut after {operations} operations, and {second} of opening"
                self.check_open(survivor.after_power_cut(0.5), allowed, label)
            operations += 1


if __name__ == "__main__":
    unittest.main()
