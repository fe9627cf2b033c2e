"""A stand-in for the x07 toolchain, which no package registry carries.

It reads x07AST modules and really runs their tests, so that a patch decides the outcome: enough of the language for
the published suites' integer and boolean tests and for small modules of our own. Commands, report shapes, exit codes,
search for `stdlib.lock`, fail-fast, and the linter's quickfixes are those of x07 0.2.17. Standard library only: it runs
with whatever `python3` an environment has.

To provoke what a healthy x07 does not do, put a file ``x07-standin.json`` where the command starts (or the same JSON
into the variable ``X07_STANDIN``):

    {"test": "die"}          ends with a panic's exit code before it writes a report
    {"test": "hang"}         never ends
    {"test": "stale"}        dies, and what lies at the report's path is the report of the run before
    {"test": "garbage"}      the report is not JSON
    {"test": "lie"}          the report says that all passed, the exit code that some failed
    {"test": "flaky"}        every second run says the opposite
    {"lint": "hang"}         the linter never ends
"""
