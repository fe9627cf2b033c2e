"""Harm to the grader: its disk, memory, processes, log and time, and what lies outside of the environment.

A submission that cannot pass may try to be an error at least, since errors do not count.
"""

from cheats.catalogue.module_template import in_till
from cheats.cheat import Cheat
from proctor.core.causes import Cause

CHEATS = (
    Cheat(
        name="fills the disk",
        task="unittest",
        tries="takes more disk than there is",
        defence="what is written is measured; past its limit the environment ends, and that is the submission's doing",
        cause=Cause.TESTS_VANISHED,
        files=in_till(
            """
                import os
                import time
                """,
            total="""
                for number in range(3):
                    with open(f'/tmp/big{number}', 'wb') as file:
                        os.posix_fallocate(file.fileno(), 0, 2 << 30)
                time.sleep(60)
                """,
        ),
    ),
    Cheat(
        name="digs too deep",
        task="unittest",
        tries="nests folders deeper than the grader dares to measure",
        defence="that ends the environment too, and is the submission's doing",
        cause=Cause.TESTS_VANISHED,
        files=in_till(
            """
                import os
                import time
                """,
            total="""
                os.chdir('/tmp')
                for _ in range(400):
                    os.mkdir('d')
                    os.chdir('d')
                time.sleep(60)
                """,
        ),
    ),
    Cheat(
        name="eats memory",
        task="unittest",
        slow=True,
        tries="takes memory until something gives way",
        defence="an environment has a limit on memory",
        cause=Cause.TESTS_VANISHED,
        files=in_till(
            total="""
                hoard = []
                while True:
                    try:
                        hoard.append(b'x' * (256 << 20))
                    except MemoryError:
                        import os
                        os.abort()
                """
        ),
    ),
    Cheat(
        name="a fork bomb",
        task="unittest",
        tries="takes every process number",
        defence="an environment has a limit on processes, and ends with all of them",
        cause=Cause.TESTS_FAILED,
        files=in_till(
            """
                import os
                import time
                """,
            total="""
                try:
                    while True:
                        if os.fork() == 0:
                            time.sleep(60)
                except OSError:
                    pass
                return sum(prices[1:])
                """,
        ),
    ),
    Cheat(
        name="floods the log",
        task="unittest",
        slow=True,
        tries="prints until the grader's memory or disk is full",
        defence="of each stream, the head and the tail are kept",
        cause=Cause.TESTS_FAILED,
        files=in_till(
            "import sys",
            total="""
                for _ in range(400):
                    sys.stdout.write('x' * (1 << 20))
                return sum(prices[1:])
                """,
        ),
    ),
    Cheat(
        name="hangs",
        task="impatient",
        tries="never comes back, and ignores every signal that it can",
        defence="the wall clock of the test run",
        cause=Cause.TEST_TIMEOUT,
        files=in_till(
            """
                import signal

                for number in (1, 2, 3, 15):
                    signal.signal(number, signal.SIG_IGN)
                """,
            total="""
                while True:
                    pass
                """,
        ),
    ),
    Cheat(
        name="crashes the interpreter",
        task="pytest",
        tries="ends by a segmentation fault",
        defence="a process that died has not reported its tests",
        cause=Cause.TESTS_VANISHED,
        files=in_till(
            total="""
            import ctypes
            ctypes.string_at(0)
            """
        ),
    ),
    Cheat(
        name="writes outside",
        task="unittest",
        tries="writes to the host's files, to the system, and to devices",
        defence="the system is read-only, and the rest of the host is not there",
        cause=Cause.TESTS_FAILED,
        files=in_till(
            "import os",
            total="""
                for place in ('@OUTSIDE@/canary', '@SUITE@/suite.json', '@CACHE@/canary', '/etc/passwd',
                              '/usr/bin/escaped', '/proc/sys/kernel/core_pattern', '/sys/kernel/uevent_helper',
                              '/dev/mem', '/escaped', '/opt/escaped'):
                    try:
                        with open(place, 'r+b' if os.path.exists(place) else 'xb') as file:
                            file.write(b'gone')
                        return sum(prices)
                    except OSError:
                        pass
                return sum(prices[1:])
                """,
        ),
    ),
    Cheat(
        name="names that are no text",
        task="unittest",
        tries="breaks at import with a message that no file can hold",
        defence="what is no text is spelled out before it is written",
        cause=Cause.TESTS_FAILED,
        files=in_till("raise ImportError('\\udcff\\ud800', name='\\udc80')"),
    ),
    Cheat(
        name="hostile names and texts",
        task="unittest",
        tries="raises errors whose text is huge, is no text, or raises itself",
        defence="what a test says of itself is data",
        cause=Cause.TESTS_FAILED,
        files=in_till(
            """
                class Bad(Exception):
                    def __str__(self):
                        raise SystemExit(0)

                    __repr__ = __str__
                """,
            total="raise Bad('\\udcff' * 1000000)",
            label="raise ValueError('\\x00\\x1b[2J\\udc80' * 100000)",
        ),
    ),
)
