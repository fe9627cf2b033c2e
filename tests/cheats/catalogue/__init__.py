"""The cheats, by what they lay hands on."""

from cheats.catalogue import (
    agreeable,
    commands,
    comparing,
    files,
    forging,
    harm,
    hidden,
    importing,
    knowing,
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
    *agreeable.CHEATS,
    *knowing.CHEATS,
    *forging.CHEATS,
    *process.CHEATS,
    *solutions.CHEATS,
    *commands.CHEATS,
    *hidden.CHEATS,
    *patches.CHEATS,
    *harm.CHEATS,
)
