import unittest

from coop import Channel, Closed, Deadlock, Scheduler, join, sleep


class CoopTest(unittest.TestCase):
    def test_producer_and_consumer(self):
        def producer(out):
            for number in range(3):
                yield out.send(number)
                yield sleep(10)
            out.close()

        def consumer(source):
            got = []
            while True:
                got.append((yield source.receive()))
                if len(got) == 3:
                    return got

        scheduler, channel = Scheduler(), Channel()
        scheduler.spawn(producer(channel))
        task = scheduler.spawn(consumer(channel))
        scheduler.run()
        self.assertEqual((task.result, scheduler.now), ([0, 1, 2], 30))

    def test_join(self):
        def child():
            yield sleep(5)
            return "done"

        def parent(task):
            return (yield join(task))

        scheduler = Scheduler()
        task = scheduler.spawn(parent(scheduler.spawn(child())))
        scheduler.run()
        self.assertEqual(task.result, "done")

    def test_deadlock(self):
        def lonely(channel):
            yield channel.receive()

        scheduler = Scheduler()
        scheduler.spawn(lonely(Channel()), "lonely")
        with self.assertRaises(Deadlock) as caught:
            scheduler.run()
        self.assertEqual(caught.exception.names, ["lonely"])

    def test_closed(self):
        def late(channel):
            channel.close()
            yield channel.send(1)

        scheduler = Scheduler()
        task = scheduler.spawn(late(Channel()))
        scheduler.run()
        self.assertIsInstance(task.error, Closed)
