"""Leaving before the tests have spoken, or speaking in their place."""

from functools import partial

from cheats.catalogue.module_template import in_till
from cheats.cheat import Cheat
from proctor.core.causes import Cause

_ACCOUNTED = "every test that was found must start and finish, in records that only the reporter can write"

_accounted = partial(Cheat, defence=_ACCOUNTED, cause=Cause.TESTS_VANISHED)

CHEATS = (
    Cheat(
        name="prints a summary",
        task="unittest",
        tries="prints what unittest prints when all is well",
        defence="what is printed is a log for people; results come by records with a mac",
        cause=Cause.TESTS_FAILED,
        files=in_till(
            """
                import sys

                for stream in (sys.stdout, sys.stderr):
                    print('Ran 5 tests in 0.001s', '', 'OK', sep='\\n', file=stream)
                    print('5 passed in 0.01s', file=stream)
                """
        ),
    ),
    _accounted(
        name="os._exit(0) at import",
        task="unittest",
        tries="ends the process with success before a test runs",
        files=in_till("""
            import os

            os._exit(0)
            """),
    ),
    _accounted(
        name="os._exit(0) in a test",
        task="pytest",
        tries="ends the process with success in the middle of the failing test",
        files=in_till(
            total="""
            import os
            os._exit(0)
            """
        ),
    ),
    Cheat(
        name="sys.exit(0) at import",
        task="unittest",
        tries="leaves by SystemExit, which a runner may take for its own",
        defence="a module that cannot be loaded is broken, whatever it raised",
        cause=Cause.TESTS_FAILED,
        files=in_till("""
            import sys

            sys.exit(0)
            """),
    ),
    _accounted(
        name="KeyboardInterrupt",
        task="pytest",
        tries="makes pytest stop as if somebody had pressed Ctrl-C",
        files=in_till(parse="raise KeyboardInterrupt"),
    ),
    Cheat(
        name="atexit",
        task="unittest",
        tries="sets the exit code in the very last moment",
        defence="the exit code decides nothing, and the worker leaves without exit handlers",
        cause=Cause.TESTS_FAILED,
        files=in_till("""
            import atexit
            import os

            atexit.register(os._exit, 0)
            """),
    ),
    Cheat(
        name="SkipTest",
        task="unittest",
        tries="raises SkipTest from the tested function",
        defence="a test that must pass and is skipped has not passed",
        cause=Cause.TESTS_FAILED,
        files=in_till(
            total="""
            import unittest
            raise unittest.SkipTest('not today')
            """
        ),
    ),
    _accounted(
        name="becomes another program",
        task="unittest",
        tries="replaces the test process by `true`, which succeeds",
        files=in_till(
            total="""
            import os
            os.execv('/bin/true', ['true'])
            """
        ),
    ),
    Cheat(
        name="a record of its own",
        task="unittest",
        tries="writes well-formed records into every open descriptor, then leaves",
        defence="records are chained by a mac whose key the worker never shows",
        cause=Cause.TAMPERED,
        files=in_till(
            """
                import os

                names = ["tests.test_total.TotalTest.test_all_prices_count", "tests.test_parse.ParseTest.test_a"]
                lines = ['ready'] + [f'collect {n.encode().hex()}' for n in names] + ['collected 32']
                for n in names:
                    lines += [f'start {n.encode().hex()}', f'finish {n.encode().hex()} 706173736564']
                data = ''.join(f'{0:032x} {line}\\n' for line in [*lines, 'final 30']).encode()
                for number in range(1, 1024):
                    try:
                        os.write(number, data)
                    except OSError:
                        pass
                os._exit(0)
                """
        ),
    ),
    _accounted(
        name="closes every descriptor",
        task="pytest",
        tries="makes the reporter deaf, and hopes that silence is success",
        files=in_till(
            total="""
            import os
            os.closerange(0, 256)
            return sum(prices[1:])
            """
        ),
    ),
)
