"""The cheats, by what they lay hands on."""

from cheats.catalogue import (
    always_equal,
    commands,
    comparing,
    early_exit,
    files,
    forging,
    harm,
    hidden,
    importing,
    machinery,
    patches,
    process,
    reads_tests,
    solutions,
)
from cheats.cheat import Cheat

CHEATS: tuple[Cheat, ...] = (
    *files.CHEATS,
    *early_exit.CHEATS,
    *machinery.CHEATS,
    *importing.CHEATS,
    *comparing.CHEATS,
    *always_equal.CHEATS,
    *reads_tests.CHEATS,
    *forging.CHEATS,
    *process.CHEATS,
    *solutions.CHEATS,
    *commands.CHEATS,
    *hidden.CHEATS,
    *patches.CHEATS,
    *harm.CHEATS,
)
