"""Start-up of the command line against that of Python itself, interleaved in one run.

.venv/bin/python perf/startup.py
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 40
TARGET = 3.0
BIN = Path(sys.executable).parent


def seconds(argv: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "proctor --help": [str(BIN / "proctor"), "--help"],
        "proctor schema": [str(BIN / "proctor"), "schema"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, argv in commands.items():
            times[name].append(seconds(argv))
    base = statistics.median(times["python -c pass"])
    for name, samples in times.items():
        median = statistics.median(samples)
        print(f"{name:30} {median * 1000:7.1f} ms   {median / base:4.1f}x")
    ratio = statistics.median(times["proctor --help"]) / base
    print(f"target: proctor --help within {TARGET:g}x of python -c pass: {'met' if ratio <= TARGET else 'MISSED'}")
    return 0 if ratio <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
