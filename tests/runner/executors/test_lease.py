"""Leases: what a node may do, and when the driver knows that it may not any more."""

import threading

import pytest

from proctor.runner.executors import lease
from proctor.runner.executors.lease import MARGIN_SECONDS, DriverLease, NodeLease, boot_seconds, lease_seconds
from waiting import until


def test_a_lease_that_is_renewed_holds_and_one_that_is_not_ends() -> None:
    ended = threading.Event()
    held = NodeLease(60, ended.set)
    assert held.holds
    held.close()
    short = NodeLease(0.05, ended.set)
    assert ended.wait(20)
    assert not short.holds
    short.close()  # before the process is ended


def test_a_renewal_that_was_held_up_on_the_way_extends_nothing() -> None:
    held = NodeLease(0.2, lambda: None)
    long_ago = boot_seconds() - 5
    held.renew(long_ago)
    until(lambda: not held.holds, "its end")
    held.renew(boot_seconds())
    assert not held.holds, "what has ended stays so"
    held.close()


def test_the_driver_waits_for_longer_than_any_node_can_work() -> None:
    node = NodeLease(1.0, lambda: None)
    driver = DriverLease(1.0, boot_seconds())
    for _ in range(3):
        driver.renewed(node.renew(driver.reported_at))
    node.renew(driver.reported_at)
    left, now = driver.seconds_left, boot_seconds()
    assert now + left > node._ends_at
    assert left <= 1.0 + MARGIN_SECONDS
    assert node.holds
    assert not driver.overdue
    until(lambda: not node.holds, "the end of the lease")
    until(lambda: driver.overdue, "what the driver notices")
    assert driver.seconds_left > 0
    node.close()


def test_the_length_of_a_lease_can_be_set_and_nonsense_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(lease.LEASE_VARIABLE, "7.5")
    assert lease_seconds() == 7.5
    monkeypatch.setenv(lease.LEASE_VARIABLE, "soon")
    assert lease_seconds() == lease.DEFAULT_LEASE_SECONDS
