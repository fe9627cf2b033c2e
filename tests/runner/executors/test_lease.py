"""Leases: what a node may do, and when the driver knows that it may not any more."""

import threading
import time

import pytest

from proctor.runner.executors import lease
from proctor.runner.executors.lease import MARGIN_SECONDS, DriverLease, NodeLease, boot_seconds, lease_seconds


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
    time.sleep(0.25)
    assert not held.holds
    held.renew(boot_seconds())
    assert not held.holds, "what has ended stays so"
    held.close()


def test_the_driver_waits_for_longer_than_any_node_can_work() -> None:
    node = NodeLease(0.3, lambda: None)
    driver = DriverLease(0.3, boot_seconds())
    for _ in range(3):
        time.sleep(0.05)
        driver.renewed(node.renew(driver.reported_at))
    node.renew(driver.reported_at)
    left = driver.seconds_left
    assert left > 0.3
    assert left <= 0.3 + MARGIN_SECONDS
    overdue = [driver.overdue]
    time.sleep(0.35)
    assert not node.holds
    assert [*overdue, driver.overdue] == [False, True]
    assert driver.seconds_left > 0
    node.close()


def test_the_length_of_a_lease_can_be_set_and_nonsense_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(lease.LEASE_VARIABLE, "7.5")
    assert lease_seconds() == 7.5
    monkeypatch.setenv(lease.LEASE_VARIABLE, "soon")
    assert lease_seconds() == lease.DEFAULT_LEASE_SECONDS
