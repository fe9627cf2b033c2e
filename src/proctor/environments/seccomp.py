"""A filter on system calls, for what the kernel does not keep apart for each environment.

Process 1 cannot be signalled or traced, but whoever has the same user may set its resource limits, and a limit on
processor time would kill it. So these calls are refused (EPERM) when they name process 1.

The kernel's keyrings are inherited from process to process. An environment's first process joins a session keyring of
its own; where there is no such process, or none can be had, the calls that reach keys are refused, as in containers.
"""

import errno
import functools
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple


class _Calls(NamedTuple):
    """The numbers of system calls: prlimit64, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr;
    and add_key, request_key, keyctl.
    """

    on_process: tuple[int, ...]
    on_keys: tuple[int, ...]


_X32: Final = 0x40000000
# By architecture, as the kernel's audit numbers them.
_CALLS: Final = {
    0xC000003E: _Calls((302, 142, 144, 203, 314), (248, 249, 250)),
    0x40000003: _Calls((340, 154, 156, 241, 351), (286, 287, 288)),
    0xC00000B7: _Calls((261, 118, 119, 122, 274), (217, 218, 219)),
    0x40000028: _Calls((369, 154, 156, 241, 380), (309, 310, 311)),
}
_X86_64: Final = 0xC000003E
_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM


@functools.cache
def filter_program(*, keys: bool) -> bytes:
    """The filter, as bubblewrap takes it; `keys`: the calls that reach keys are allowed."""
    return _program(on_process=True, on_keys=not keys)


@functools.cache
def key_filter_program() -> bytes:
    """A filter that refuses the calls that reach keys, and nothing else."""
    return _program(on_process=False, on_keys=True)


def _program(*, on_process: bool, on_keys: bool) -> bytes:
    program = [_instruction(_LOAD, _ARCHITECTURE)]
    for architecture, calls in _CALLS.items():
        body = [_instruction(_LOAD, _NUMBER)]
        for number in _numbers(architecture, calls.on_keys if on_keys else ()):
            body += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, _REFUSE)]
        for number in _numbers(architecture, calls.on_process if on_process else ()):
            body += [
                _instruction(_EQUAL, number, 0, 4),
                _instruction(_LOAD, _FIRST_ARGUMENT),
                _instruction(_EQUAL, 1, 0, 1),
                _instruction(_RETURN, _REFUSE),
                _instruction(_RETURN, _ALLOW),
            ]
        body.append(_instruction(_RETURN, _ALLOW))
        program += [_instruction(_EQUAL, architecture, 0, len(body)), *body]
    program.append(_instruction(_RETURN, _ALLOW))
    return b"".join(program)


def _numbers(architecture: int, calls: tuple[int, ...]) -> Iterator[int]:
    for call in calls:
        yield call
        if architecture == _X86_64:
            yield call | _X32


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
