import unittest

from coop import Cancelled, Channel, Closed, Deadlock, Scheduler, join, select, sleep


class Base(unittest.TestCase):
    def setUp(self):
        self.scheduler = Scheduler()
        self.log = []

    def spawn(self, generator, name=None):
        return self.scheduler.spawn(generator, name)

    def run_all(self):
        self.scheduler.run()
        return self.log

    def note(self, *what):
        self.log.append(what if len(what) > 1 else what[0])

    # Little tasks that most tests are made of.

    def send(self, channel, *values):
        for value in values:
            yield channel.send(value)
            self.note("sent", value)

    def receive(self, channel, count=1, label="got"):
        for _ in range(count):
            value = yield channel.receive()
            self.note(label, value)

    def after(self, time, action):
        yield sleep(time)
        action()

    def wait_and_tell(self, operation, label="got"):
        try:
            self.note(label, (yield operation))
        except (Closed, Cancelled) as error:
            self.note(label, type(error).__name__)


class TaskTest(Base):
    def test_turns(self):
        def task(name):
            for turn in range(2):
                self.note(name, turn)
                yield sleep(0)

        for name in "ab":
            self.spawn(task(name))
        self.assertEqual(self.run_all(), [("a", 0), ("b", 0), ("a", 1), ("b", 1)])

    def test_time(self):
        def task(name, *times):
            for time in times:
                yield sleep(time)
                self.note(name, self.scheduler.now)

        self.spawn(task("a", 5, 10))
        self.spawn(task("b", 15, 1))
        self.spawn(task("c", 5))
        self.assertEqual(self.run_all(), [("a", 5), ("c", 5), ("b", 15), ("a", 15), ("b", 16)])

    def test_results_and_errors(self):
        def fine():
            yield sleep(1)
            return 7

        def broken():
            yield sleep(1)
            raise KeyError("x")

        one, other = self.spawn(fine()), self.spawn(broken())
        self.run_all()
        self.assertEqual((one.result, one.error, one.finished), (7, None, True))
        self.assertIsInstance(other.error, KeyError)

    def test_join(self):
        def child(time, fail):
            yield sleep(time)
            if fail:
                raise KeyError("x")
            return time

        def parent(task, label):
            try:
                self.note(label, (yield join(task)))
            except KeyError:
                self.note(label, "KeyError")

        good, bad = self.spawn(child(5, False)), self.spawn(child(3, True))
        for label, task in (("a", good), ("b", good), ("c", bad)):
            self.spawn(parent(task, label))
        self.assertEqual(self.run_all(), [("c", "KeyError"), ("a", 5), ("b", 5)])
        self.spawn(parent(good, "late"))
        self.assertEqual(self.run_all()[-1], ("late", 5))

    def test_deadlock(self):
        self.spawn(self.receive(Channel()), "one")
        self.spawn(self.after(5, lambda: None), "two")
        self.spawn(self.send(Channel(), 1), "three")
        with self.assertRaises(Deadlock) as caught:
            self.scheduler.run()
        self.assertEqual(caught.exception.names, ["one", "three"])
        self.assertEqual(self.scheduler.now, 5)

    def test_only_operations_can_be_yielded(self):
        def odd():
            try:
                yield 5
            except TypeError:
                yield sleep(1)
                return "caught"

        task = self.spawn(odd())
        self.run_all()
        self.assertEqual(task.result, "caught")


class ChannelTest(Base):
    def test_without_a_buffer_sender_and_receiver_meet(self):
        channel = Channel()
        self.spawn(self.send(channel, 1, 2))
        self.spawn(self.after(5, lambda: self.spawn(self.receive(channel, 2))))
        self.run_all()
        self.assertEqual([entry for entry in self.log if entry[0] == "got"], [("got", 1), ("got", 2)])
        self.assertEqual([entry for entry in self.log if entry[0] == "sent"], [("sent", 1), ("sent", 2)])

    def test_receivers_are_served_in_order(self):
        channel = Channel()
        for label in "abc":
            self.spawn(self.receive(channel, 1, label))
        self.spawn(self.send(channel, 1, 2, 3))
        self.run_all()
        self.assertEqual([entry for entry in self.log if entry[0] != "sent"], [("a", 1), ("b", 2), ("c", 3)])

    def test_senders_are_served_in_order(self):
        channel = Channel()
        for value in (1, 2, 3):
            self.spawn(self.send(channel, value))
        self.spawn(self.receive(channel, 3))
        self.run_all()
        self.assertEqual([entry for entry in self.log if entry[0] == "got"], [("got", 1), ("got", 2), ("got", 3)])

    def test_a_buffer(self):
        channel = Channel(2)
        self.spawn(self.send(channel, 1, 2))
        self.assertEqual(self.run_all(), [("sent", 1), ("sent", 2)])
        self.assertEqual(len(channel), 2)

    def test_a_free_place_goes_to_the_waiting_sender(self):
        channel = Channel(1)
        self.spawn(self.send(channel, 1, 2))
        self.spawn(self.after(1, lambda: self.spawn(self.receive(channel))))
        self.assertEqual(sorted(self.run_all()), [("got", 1), ("sent", 1), ("sent", 2)])
        self.assertEqual(len(channel), 1)

    def test_nobody_overtakes_a_waiting_sender(self):
        channel = Channel(1)
        self.spawn(self.send(channel, "a1", "a2"))
        self.spawn(self.after(1, lambda: self.spawn(self.receive(channel, 1))))
        self.spawn(self.after(2, lambda: self.spawn(self.send(channel, "b"))))
        self.spawn(self.after(3, lambda: self.spawn(self.receive(channel, 2))))
        self.run_all()
        self.assertEqual([value for what, value in self.log if what == "got"], ["a1", "a2", "b"])

    def test_many_senders_and_a_buffer(self):
        channel = Channel(3)
        for start in (0, 100, 200):
            self.spawn(self.send(channel, *range(start, start + 5)))
        self.spawn(self.receive(channel, 15))
        self.run_all()
        values = [value for what, value in self.log if what == "got"]
        for start in (0, 100, 200):
            self.assertEqual([v for v in values if start <= v < start + 5], list(range(start, start + 5)))
        self.assertEqual(len(channel), 0)

    def test_none_is_a_value(self):
        channel = Channel()
        self.spawn(self.send(channel, None, 0, False))
        self.spawn(self.receive(channel, 3))
        self.run_all()
        self.assertEqual([value for what, value in self.log if what == "got"], [None, 0, False])


class CloseTest(Base):
    def test_waiting_receivers(self):
        channel = Channel()
        for label in "ab":
            self.spawn(self.wait_and_tell(channel.receive(), label))
        self.spawn(self.after(5, channel.close))
        self.assertEqual(self.run_all(), [("a", "Closed"), ("b", "Closed")])

    def test_waiting_senders(self):
        channel = Channel(1)
        for label in "abc":
            self.spawn(self.wait_and_tell(channel.send(label), label))
        self.spawn(self.after(5, channel.close))
        self.spawn(self.after(6, lambda: [self.spawn(self.wait_and_tell(channel.receive())) for _ in range(2)]))
        self.assertEqual(self.run_all(), [("a", None), ("b", "Closed"), ("c", "Closed"), ("got", "a"), ("got", "Closed")])

    def test_what_is_in_the_buffer_can_still_be_received(self):
        channel = Channel(2)
        self.spawn(self.send(channel, 1, 2))
        self.scheduler.run()
        channel.close()
        channel.close()
        del self.log[:]
        for _ in range(3):
            self.spawn(self.wait_and_tell(channel.receive()))
        self.spawn(self.wait_and_tell(channel.send(3), "sent"))
        self.assertEqual(self.run_all(), [("got", 1), ("got", 2), ("got", "Closed"), ("sent", "Closed")])

    def test_in_a_select(self):
        channel, other = Channel(), Channel()
        self.spawn(self.wait_and_tell(select(other.receive(), channel.receive())))
        self.spawn(self.after(5, channel.close))
        self.assertEqual(self.run_all(), [("got", "Closed")])
        del self.log[:]
        self.spawn(self.send(other, 1))
        self.spawn(self.receive(other))
        self.assertEqual(sorted(self.run_all()), [("got", 1), ("sent", 1)])


class SelectTest(Base):
    def test_the_first_that_can_be_done_at_once(self):
        one, other = Channel(1), Channel(1)
        self.spawn(self.send(one, 1))
        self.spawn(self.send(other, 2))
        self.scheduler.run()
        del self.log[:]
        self.spawn(self.wait_and_tell(select(Channel().receive(), other.receive(), one.receive())))
        self.assertEqual(self.run_all(), [("got", (1, 2))])
        self.assertEqual((len(one), len(other)), (1, 0))

    def test_the_first_that_happens(self):
        one, other = Channel(), Channel()
        self.spawn(self.wait_and_tell(select(one.receive(), other.receive())))
        self.spawn(self.after(3, lambda: self.spawn(self.send(other, "x"))))
        self.run_all()
        self.assertIn(("got", (1, "x")), self.log)

    def test_the_others_never_happen(self):
        one, other = Channel(), Channel()

        def chooser():
            self.note((yield select(one.receive(), other.receive())))
            yield sleep(100)
            self.note("slept")

        self.spawn(chooser())
        self.spawn(self.after(1, lambda: self.spawn(self.send(one, 1))))
        self.spawn(self.after(2, lambda: self.spawn(self.send(other, 2))))
        self.spawn(self.after(3, lambda: self.spawn(self.receive(other))))
        self.run_all()
        self.assertEqual([entry for entry in self.log if entry[0] != "sent"], [(0, 1), ("got", 2), "slept"])
        self.assertEqual(self.scheduler.now, 101)

    def test_a_timeout(self):
        channel = Channel()

        def patient():
            self.note((yield select(channel.receive(), sleep(5))))
            yield sleep(50)
            self.note("slept", self.scheduler.now)

        self.spawn(patient())
        self.spawn(self.after(20, lambda: self.spawn(self.send(channel, "late"))))
        self.spawn(self.after(30, lambda: self.spawn(self.receive(channel))))
        self.run_all()
        self.assertEqual(sorted(self.log, key=str), [("got", "late"), ("sent", "late"), ("slept", 55), (1, None)])

    def test_a_timeout_that_was_not_needed(self):
        channel = Channel()

        def patient():
            self.note((yield select(channel.receive(), sleep(1000))))
            yield sleep(5)
            self.note(self.scheduler.now)

        self.spawn(patient())
        self.spawn(self.send(channel, "x"))
        self.run_all()
        self.assertEqual([entry for entry in self.log if entry != ("sent", "x")], [(0, "x"), 5])
        self.assertEqual(self.scheduler.now, 5)

    def test_sending(self):
        one, other = Channel(), Channel()
        self.spawn(self.wait_and_tell(select(one.send("to one"), other.send("to other"))))
        self.spawn(self.receive(other, 1, "other"))
        self.run_all()
        self.assertEqual(sorted(self.log), [("got", (1, None)), ("other", "to other")])
        del self.log[:]
        self.spawn(self.wait_and_tell(select(one.receive(), sleep(5))))
        self.assertEqual(self.run_all(), [("got", (1, None))])

    def test_the_same_channel_twice(self):
        channel = Channel()
        self.spawn(self.wait_and_tell(select(channel.receive(), channel.receive())))
        self.spawn(self.send(channel, 1))
        self.spawn(self.after(5, lambda: self.spawn(self.send(channel, 2))))
        self.spawn(self.after(6, lambda: self.spawn(self.receive(channel))))
        self.run_all()
        self.assertEqual([entry for entry in self.log if entry[0] == "got"], [("got", (0, 1)), ("got", 2)])

    def test_nobody_sends_to_themselves(self):
        channel = Channel()
        self.spawn(self.wait_and_tell(select(channel.send(1), channel.receive(), sleep(7))))
        self.assertEqual(self.run_all(), [("got", (2, None))])

    def test_join(self):
        def child():
            yield sleep(5)
            raise Closed()

        def quick():
            yield sleep(2)
            return "quick"

        slow = self.spawn(child())
        self.spawn(self.wait_and_tell(select(join(slow), join(self.spawn(quick()))), "a"))
        self.spawn(self.wait_and_tell(select(join(slow), sleep(9)), "b"))
        self.assertEqual(self.run_all(), [("a", (1, "quick")), ("b", "Closed")])
        self.assertEqual(self.scheduler.now, 5)

    def test_again_and_again(self):
        channel, results = Channel(), []

        def poller():
            while len(results) < 4:
                index, value = yield select(channel.receive(), sleep(10))
                results.append((self.scheduler.now, index, value))

        self.spawn(poller())
        self.spawn(self.after(25, lambda: self.spawn(self.send(channel, "x"))))
        self.run_all()
        self.assertEqual(results, [(10, 1, None), (20, 1, None), (25, 0, "x"), (35, 1, None)])


class CancelTest(Base):
    def test_a_waiting_receiver(self):
        channel = Channel()
        task = self.spawn(self.wait_and_tell(channel.receive(), "first"))
        self.spawn(self.receive(channel, 1, "second"))
        self.spawn(self.after(1, lambda: self.scheduler.cancel(task)))
        self.spawn(self.after(2, lambda: self.spawn(self.send(channel, 1))))
        self.run_all()
        self.assertEqual(sorted(self.log), [("first", "Cancelled"), ("second", 1), ("sent", 1)])

    def test_given_up_at_the_moment_of_the_call(self):
        channel = Channel()
        task = self.spawn(self.wait_and_tell(channel.receive(), "first"))

        def boss():
            yield sleep(1)
            self.scheduler.cancel(task)
            self.note("sent", (yield select(channel.send(1), sleep(3))))

        self.spawn(boss())
        self.assertEqual(self.run_all(), [("first", "Cancelled"), ("sent", (1, None))])

    def test_a_waiting_sender(self):
        channel = Channel()
        task = self.spawn(self.wait_and_tell(channel.send("gone"), "sender"))
        self.spawn(self.send(channel, "kept"))
        self.spawn(self.after(1, lambda: self.scheduler.cancel(task)))
        self.spawn(self.after(2, lambda: self.spawn(self.receive(channel))))
        self.run_all()
        self.assertEqual(sorted(self.log), [("got", "kept"), ("sender", "Cancelled"), ("sent", "kept")])

    def test_a_sleeper_does_not_keep_the_clock_going(self):
        task = self.spawn(self.wait_and_tell(sleep(86400)))
        self.spawn(self.after(3, lambda: self.scheduler.cancel(task)))
        self.assertEqual(self.run_all(), [("got", "Cancelled")])
        self.assertEqual(self.scheduler.now, 3)

    def test_a_select(self):
        channel = Channel()
        task = self.spawn(self.wait_and_tell(select(channel.receive(), sleep(500)), "selector"))
        self.spawn(self.after(1, lambda: self.scheduler.cancel(task)))
        self.spawn(self.after(2, lambda: self.spawn(self.send(channel, 1))))
        self.spawn(self.after(3, lambda: self.spawn(self.receive(channel))))
        self.run_all()
        self.assertEqual(sorted(self.log), [("got", 1), ("selector", "Cancelled"), ("sent", 1)])
        self.assertEqual(self.scheduler.now, 3)

    def test_a_joiner(self):
        def child():
            yield sleep(10)
            return 5

        def parent():
            try:
                yield join(task)
            except Cancelled:
                yield sleep(100)
                return "own way"

        task = self.spawn(child())
        joiner = self.spawn(parent())
        self.spawn(self.after(1, lambda: self.scheduler.cancel(joiner)))
        self.run_all()
        self.assertEqual((joiner.result, self.scheduler.now), ("own way", 101))

    def test_joining_a_cancelled_task(self):
        task = self.spawn(self.after(50, lambda: None))
        self.spawn(self.wait_and_tell(join(task)))
        self.spawn(self.after(1, lambda: self.scheduler.cancel(task)))
        self.assertEqual(self.run_all(), [("got", "Cancelled")])
        self.assertIsInstance(task.error, Cancelled)

    def test_a_task_that_goes_on(self):
        channel = Channel()

        def stubborn():
            try:
                yield channel.receive()
            except Cancelled:
                self.note("no")
            self.note((yield channel.receive()))

        task = self.spawn(stubborn())
        self.spawn(self.after(1, lambda: self.scheduler.cancel(task)))
        self.spawn(self.after(2, lambda: self.spawn(self.send(channel, 1))))
        self.run_all()
        self.assertEqual([entry for entry in self.log if entry != ("sent", 1)], ["no", 1])

    def test_cleaning_up_takes_its_time(self):
        done = Channel()

        def careful():
            try:
                yield sleep(1000)
            finally:
                yield sleep(5)
                yield done.send("clean")

        task = self.spawn(careful())
        self.spawn(self.after(1, lambda: self.scheduler.cancel(task)))
        self.spawn(self.receive(done))
        self.assertEqual(self.run_all(), [("got", "clean")])
        self.assertEqual(self.scheduler.now, 6)
        self.assertIsInstance(task.error, Cancelled)

    def test_a_result_that_is_on_its_way_comes_first(self):
        channel, other = Channel(), Channel(1)

        def worker():
            self.note("got", (yield channel.receive()))
            try:
                yield other.send("never")
            except Cancelled:
                self.note("cancelled")

        task = self.spawn(worker())

        # The value is handed over, and before the worker's turn comes it is cancelled.
        def handover():
            yield sleep(1)
            self.spawn(self.canceller(task))
            yield channel.send("value")

        self.spawn(handover())
        self.run_all()
        self.assertEqual(self.log, [("got", "value"), "cancelled"])
        self.assertEqual(len(other), 0)

    def canceller(self, task):
        self.scheduler.cancel(task)
        return
        yield

    def test_an_operation_that_was_done_at_once(self):
        channel = Channel(5)

        def worker():
            self.note("sent", (yield channel.send(1)))
            self.note("sent", (yield channel.send(2)))

        task = self.spawn(worker())
        self.spawn(self.canceller(task))
        self.assertEqual(self.run_all(), [("sent", None)])
        self.assertEqual(len(channel), 1)
        self.assertIsInstance(task.error, Cancelled)

    def test_itself(self):
        def suicidal():
            self.scheduler.cancel(task)
            self.note("still here")
            try:
                yield sleep(10)
            except Cancelled:
                self.note("now")
                yield sleep(1)

        task = self.spawn(suicidal())
        self.assertEqual(self.run_all(), ["still here", "now"])
        self.assertEqual(self.scheduler.now, 1)

    def test_a_task_that_had_no_turn_never_starts(self):
        def worker():
            self.note("started")
            yield sleep(1)

        task = self.spawn(worker())
        self.scheduler.cancel(task)
        self.assertEqual(self.run_all(), [])
        self.assertTrue(task.finished)
        self.assertIsInstance(task.error, Cancelled)

    def test_a_finished_task(self):
        task = self.spawn(self.after(1, lambda: None))
        self.run_all()
        self.scheduler.cancel(task)
        self.scheduler.run()
        self.assertIsNone(task.error)

    def test_cancelled_tasks_are_not_in_the_deadlock(self):
        task = self.spawn(self.wait_and_tell(Channel().receive()), "cancelled")
        self.spawn(self.receive(Channel()), "stuck")
        self.spawn(self.after(1, lambda: self.scheduler.cancel(task)))
        with self.assertRaises(Deadlock) as caught:
            self.scheduler.run()
        self.assertEqual(caught.exception.names, ["stuck"])


class WarehouseTest(Base):
    def test_no_parcel_is_lost_or_doubled(self):
        for capacity in (0, 1, 3):
            self.setUp()
            belt, received, workers = Channel(capacity), [], []

            def worker(number):
                while True:
                    index, parcel = yield select(belt.receive(), sleep(7 + number))
                    if index == 0:
                        received.append(parcel)
                        yield sleep(number % 3)

            def sender(start):
                for parcel in range(start, start + 40):
                    yield belt.send(parcel)
                    if parcel % 5 == 0:
                        yield sleep(parcel % 11)

            def boss():
                for turn in range(30):
                    yield sleep(5)
                    self.scheduler.cancel(workers[turn])
                    workers.append(self.spawn(worker(turn % 4)))
                for task in senders:
                    yield join(task)
                yield sleep(100)
                for task in workers:
                    self.scheduler.cancel(task)

            workers.extend(self.spawn(worker(number)) for number in range(4))
            senders = [self.spawn(sender(start)) for start in (0, 1000, 2000)]
            self.spawn(boss())
            self.scheduler.run()
            self.assertEqual(len(belt), 0)
            self.assertEqual(sorted(received), [start + n for start in (0, 1000, 2000) for n in range(40)])


if __name__ == "__main__":
    unittest.main()
