"""The cheats, by what they lay hands on."""

from cheats.catalogue import (
    commands,
    comparing,
    files,
    harm,
    hidden,
    importing,
    leaving,
    machinery,
    patches,
    process,
    solutions,
)
from cheats.cheat import Cheat

CHEATS: tuple[Cheat, ...] = (
    *files.CHEATS,
    *leaving.CHEATS,
    *machinery.CHEATS,
    *importing.CHEATS,
    *comparing.CHEATS,
    *process.CHEATS,
    *solutions.CHEATS,
    *commands.CHEATS,
    *hidden.CHEATS,
    *patches.CHEATS,
    *harm.CHEATS,
)
