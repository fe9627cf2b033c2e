"""The kernel's keyrings: an environment has a session keyring of its own, or cannot reach keys at all."""

import _ctypes
import posix as os

_KEYCTL = {"x86_64": 250, "i686": 288, "aarch64": 219, "armv7l": 311}
_JOIN_SESSION_KEYRING = 1
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8


def join_own_keyring() -> bool:
    """Leave the session keyring that was inherited for a new one, which every command then has; whether it was so.

    It fails where the kernel has no keyrings, or where the user has as many keys as one may have, which an
    environment can bring about.
    """
    number = _KEYCTL.get(os.uname().machine)
    return number is not None and _ctypes.call_function(_symbol("syscall"), (number, _JOIN_SESSION_KEYRING, 0)) > 0


def refuse_keys(program: bytes) -> None:
    """Have the kernel refuse the calls that reach keys, by a filter that this process and its children cannot remove.

    Raises:
        OSError: it cannot be had.
    """
    import ctypes

    class SockFprog(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    given = SockFprog(len(program) // _INSTRUCTION_BYTES, program)
    if ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(given)) != 0:
        raise OSError("cannot keep the environment away from keys")


def _symbol(name: str) -> int:
    return _ctypes.dlsym(_ctypes.dlopen(None, 2), name)  # type: ignore[arg-type]
