import unittest

from triage import Desk, WaitingList


class WaitingListTest(unittest.TestCase):
    def test_order(self):
        ward = WaitingList()
        for name, priority in (("ann", 5), ("bob", 2), ("cem", 5)):
            ward.add(name, priority)
        self.assertEqual(ward.names(), ["bob", "ann", "cem"])
        ward.change("cem", 1)
        self.assertEqual(ward.next(), "cem")
        ward.change("bob", 5)
        self.assertEqual(ward.names(), ["ann", "bob"])
        ward.leave("ann")
        self.assertEqual(len(ward), 1)

    def test_desk(self):
        desk = Desk()
        desk.arrive("ann")
        desk.arrive("bob", "red")
        self.assertEqual([desk.call(), desk.call(), desk.call()], ["bob", "ann", None])
