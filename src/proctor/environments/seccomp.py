"""A filter on system calls: what runs in an environment may not turn the kernel's knobs on the environment's first
process.

Process 1 cannot be signalled or traced, but whoever has the same user may set its resource limits, and a limit on
processor time would kill it. So these calls are refused (EPERM) when they name process 1.
"""

import errno
import functools
import struct
from typing import Final

_X32: Final = 0x40000000
# By architecture, as the kernel's audit numbers them: prlimit64, sched_setparam, sched_setscheduler,
# sched_setaffinity, sched_setattr.
_CALLS: Final = {
    0xC000003E: (302, 142, 144, 203, 314),
    0x40000003: (340, 154, 156, 241, 351),
    0xC00000B7: (261, 118, 119, 122, 274),
    0x40000028: (369, 154, 156, 241, 380),
}
_X86_64: Final = 0xC000003E
_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM


@functools.cache
def filter_program() -> bytes:
    """The filter, as bubblewrap takes it."""
    program = [_instruction(_LOAD, _ARCHITECTURE)]
    for architecture, calls in _CALLS.items():
        numbers = calls + tuple(call | _X32 for call in calls if architecture == _X86_64)
        checks = len(numbers)
        body = [_instruction(_LOAD, _NUMBER)]
        # Each hit jumps over the checks that are left, and over the `allow` behind them.
        body += [_instruction(_EQUAL, number, checks - index) for index, number in enumerate(numbers)]
        body += [
            _instruction(_RETURN, _ALLOW),
            _instruction(_LOAD, _FIRST_ARGUMENT),
            _instruction(_EQUAL, 1, 0, 1),
            _instruction(_RETURN, _REFUSE),
            _instruction(_RETURN, _ALLOW),
        ]
        program += [_instruction(_EQUAL, architecture, 0, len(body)), *body]
    program.append(_instruction(_RETURN, _ALLOW))
    return b"".join(program)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
