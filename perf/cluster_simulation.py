"""How many nodes to take: 1,500 attempts on 1 to 64 nodes, with stragglers, a rate limit and nodes that fail.

    python perf/cluster_simulation.py [--seeds 5] [--markdown]

Assumptions, all of them to be changed above: an attempt takes six minutes in the median, an hour at p99, and is cut at
90 minutes; 60 % of that is the model's; eight agents to a node; an attempt costs $1 for each 590 s. A provider with a
rate limit serves so many responses at once, and is shared equally by all that wait. A node that fails comes back after
ten minutes; its attempts start again elsewhere after their lease, with their recordings. What was recorded is replayed:
the model's part of it takes no time and costs nothing, as far as the new attempt agrees with it.
"""

import argparse
import heapq
import math
import random
from dataclasses import dataclass, field
from statistics import mean

ATTEMPTS = 1500
NODES = (1, 2, 4, 8, 16, 32, 64)
SLOTS = 8
MEDIAN_SECONDS, P99_SECONDS, MAX_SECONDS = 360.0, 3600.0, 5400.0
MODEL_SHARE = 0.6
USD_PER_SECOND = 1 / 590
RATE_LIMIT = 120
EXCHANGE_SECONDS = 12.0
LEASE_SECONDS = 22.0
RETURN_SECONDS = 600.0
_SIGMA = math.log(P99_SECONDS / MEDIAN_SECONDS) / 2.326


@dataclass(slots=True)
class SimulatedAttempt:
    """A trial: how long its agent works without trouble, how much of it is left, and how much of it is recorded."""

    seconds: float
    left: float = 0.0
    node: int = -1
    replayed: float = 0.0

    def __post_init__(self) -> None:
        self.left = self.seconds


@dataclass
class Outcome:
    """How a simulated run went."""

    hours: float
    usd: float
    twice_usd: float


@dataclass
class Cluster:
    """The simulation: all running attempts go on at one speed, which the provider's limit decides."""

    nodes: int
    durations: list[float]
    rate_limit: int | None = None
    failure_seconds: float | None = None
    agreement: float = 1.0
    chance: random.Random = field(default_factory=random.Random)

    def run(self) -> Outcome:
        waiting = [SimulatedAttempt(seconds) for seconds in reversed(self.durations)]
        running: list[SimulatedAttempt] = []
        back: list[tuple[float, int, SimulatedAttempt | None, int]] = []
        failures: list[tuple[float, int]] = []
        free = dict.fromkeys(range(self.nodes), SLOTS)
        now, usd, twice, order = 0.0, 0.0, 0.0, 0
        if self.failure_seconds is not None:
            failures = [(self.chance.expovariate(1 / self.failure_seconds), node) for node in range(self.nodes)]
            heapq.heapify(failures)
        while waiting or running or any(one is not None for _, _, one, _ in back):
            while waiting and any(free.values()):
                node = max(free, key=lambda one: free[one])
                free[node] -= 1
                attempt = waiting.pop()
                attempt.node = node
                running.append(attempt)
            speed = self._speed(len(running))
            finish = min((one.left for one in running), default=math.inf) / speed
            events = [finish, back[0][0] - now if back else math.inf, failures[0][0] - now if failures else math.inf]
            step = max(min(events), 0.0)
            now += step
            for one in running:
                one.left -= step * speed
            for one in [one for one in running if one.left <= 1e-9]:
                running.remove(one)
                if one.node in free:
                    free[one.node] += 1
                usd += one.seconds * USD_PER_SECOND
            while back and back[0][0] <= now:
                _, _, returned, node = heapq.heappop(back)
                if returned is None:
                    free[node] = SLOTS
                    heapq.heappush(failures, (now + self.chance.expovariate(1 / (self.failure_seconds or 1)), node))
                else:
                    waiting.append(returned)
            while failures and failures[0][0] <= now:
                _, node = heapq.heappop(failures)
                free.pop(node, None)
                order += 1
                heapq.heappush(back, (now + RETURN_SECONDS, order, None, node))
                for one in [one for one in running if one.node == node]:
                    running.remove(one)
                    done = one.seconds - one.left
                    agreed = done * (self.agreement if self.agreement >= 1 else self.chance.random())
                    # Tools run again; the model's part is replayed as far as it agrees, and what was in flight is lost.
                    one.left = one.seconds - agreed * MODEL_SHARE
                    lost = (done - agreed) * USD_PER_SECOND + min(done, EXCHANGE_SECONDS) * USD_PER_SECOND / 2
                    twice += lost
                    usd += lost
                    order += 1
                    heapq.heappush(back, (now + LEASE_SECONDS, order, one, -1))
        return Outcome(now / 3600, usd, twice)

    def _speed(self, running: int) -> float:
        if self.rate_limit is None:
            return 1.0
        slower = max(1.0, running * MODEL_SHARE / self.rate_limit)
        return 1 / (1 - MODEL_SHARE + MODEL_SHARE * slower)


def durations(chance: random.Random) -> list[float]:
    """How long each attempt takes."""
    return [min(chance.lognormvariate(math.log(MEDIAN_SECONDS), _SIGMA), MAX_SECONDS) for _ in range(ATTEMPTS)]


def table(seeds: int) -> list[list[str]]:
    """A row for each number of nodes; means over the seeds."""
    rows = []
    for nodes in NODES:
        found: dict[str, list[Outcome]] = {}
        ideal = []
        for seed in range(seeds):
            work = durations(random.Random(seed))
            ideal.append(sum(work) / 3600 / (nodes * SLOTS))
            for name, changes, order in (
                ("plain", {}, work),
                ("longest", {}, sorted(work, reverse=True)),
                ("limited", {"rate_limit": RATE_LIMIT}, work),
                ("day", {"failure_seconds": 86400.0}, work),
                ("hours", {"failure_seconds": 14400.0}, work),
                ("half", {"failure_seconds": 14400.0, "agreement": 0.5}, work),
            ):
                cluster = Cluster(nodes, list(order), chance=random.Random(seed), **changes)  # type: ignore[arg-type]
                found.setdefault(name, []).append(cluster.run())

        def hours(name: str, found: dict[str, list[Outcome]] = found) -> str:
            return f"{mean(one.hours for one in found[name]):.1f}"

        def twice(name: str, found: dict[str, list[Outcome]] = found) -> str:
            return f"{mean(100 * one.twice_usd / one.usd for one in found[name]):.2f} %"

        rows.append(
            [
                *(str(nodes), hours("plain"), f"{mean(ideal):.1f}", hours("longest"), hours("limited")),
                *(hours("day"), hours("hours"), twice("day"), twice("hours"), twice("half")),
            ]
        )
    return rows


HEADINGS = [
    *("nodes", "hours", "ideal", "longest first", f"{RATE_LIMIT} responses at once"),
    *("a node fails a day", "every 4 h", "paid twice, a day", "every 4 h", "and half agrees"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--markdown", action="store_true")
    given = parser.parse_args()
    rows = [HEADINGS, *table(given.seeds)]
    usd = mean(sum(durations(random.Random(seed))) for seed in range(given.seeds)) * USD_PER_SECOND
    print(f"{ATTEMPTS:,} attempts, ${usd:,.0f} without what is paid twice")
    if given.markdown:
        rows.insert(1, ["---"] * len(HEADINGS))
        print("\n".join(f"| {' | '.join(row)} |" for row in rows))
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    print("\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows))


if __name__ == "__main__":
    main()
