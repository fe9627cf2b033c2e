import tempfile
import unittest

from quay import FileDisk, Store


class StoreTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name

    def test_put_get_delete(self):
        store = Store(FileDisk(self.path))
        store.put(b"ship", b"Aurora")
        store.put(b"port", b"Oslo")
        store.put(b"ship", b"Boreas")
        self.assertTrue(store.delete(b"port"))
        self.assertFalse(store.delete(b"port"))
        self.assertEqual((store.get(b"ship"), store.get(b"port"), store.keys()), (b"Boreas", None, [b"ship"]))

    def test_reopen(self):
        store = Store(FileDisk(self.path), limit=50)
        for number in range(20):
            store.put(b"key%d" % (number % 7), b"value %d" % number)
        again = Store(FileDisk(self.path), limit=50)
        self.assertEqual({key: again.get(key) for key in again.keys()}, {key: store.get(key) for key in store.keys()})

    def test_compact(self):
        store = Store(FileDisk(self.path), limit=50)
        for number in range(20):
            store.put(b"key%d" % (number % 7), b"value %d" % number)
        before = len(store.segments())
        store.compact()
        self.assertLess(len(store.segments()), before)
        self.assertEqual(store.get(b"key5"), b"value 19")
