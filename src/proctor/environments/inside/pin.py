"""Enters an environment's mount namespace and lays read-only files over some of its files: a process of its own.

Everything is named by descriptors: what is swapped for a link meanwhile is not followed. The files are new ones, in a
file system that has no other name, so that a descriptor from before leads to none of them.
"""

import contextlib
import ctypes
import fcntl
import marshal
import os
import stat
import sys

MYPY = False
if MYPY:
    from typing import Any

NS_GET_USERNS = 0xB701
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
# The same numbers on every architecture.
OPEN_TREE, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, MOUNT_SETATTR = 428, 429, 430, 431, 432, 442
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = 1, os.O_CLOEXEC, 0x100, 0x1000
FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC, FSCONFIG_CMD_CREATE, MOVE_MOUNT_F_EMPTY_PATH = 1, 1, 6, 4
MOUNT_ATTR_RDONLY = 1
DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LIBC = ctypes.CDLL(None, use_errno=True)


class MountAttributes(ctypes.Structure):
    _fields_ = [("attr_set", ctypes.c_uint64), ("attr_clr", ctypes.c_uint64)]
    _fields_ += [("propagation", ctypes.c_uint64), ("userns_fd", ctypes.c_uint64)]


def checked(result: "int") -> "int":
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def enter(pid: "int", container: "str") -> "None":
    if container:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            if container not in file.read():
                raise ProcessLookupError("not a process of the container")
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    if os.fstat(mounts).st_ino == os.stat("/proc/self/ns/mnt").st_ino:
        raise ProcessLookupError("the environment has no mounts of its own")
    owner = fcntl.ioctl(mounts, NS_GET_USERNS)
    if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
        checked(LIBC.setns(owner, CLONE_NEWUSER))
    checked(LIBC.setns(mounts, CLONE_NEWNS))


def new_file_system() -> "int":
    context = checked(LIBC.syscall(FSOPEN, b"tmpfs", FSOPEN_CLOEXEC))
    checked(LIBC.syscall(FSCONFIG, context, FSCONFIG_CMD_CREATE, None, None, 0))
    return checked(LIBC.syscall(FSMOUNT, context, FSMOUNT_CLOEXEC, 0))


def clone(parent: "int", name: "str") -> "int":
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW
    return checked(LIBC.syscall(OPEN_TREE, parent, os.fsencode(name), flags))


def attach(mount: "int", parent: "int", name: "str") -> "None":
    try:
        checked(LIBC.syscall(MOVE_MOUNT, mount, b"", parent, os.fsencode(name), MOVE_MOUNT_F_EMPTY_PATH))
    finally:
        os.close(mount)


def make_place(parent: "int", name: "str") -> "None":
    """Make sure that a regular file is there to be covered."""
    try:
        if stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=parent))


def pin(workdir: "str", entries: "Any") -> "None":
    source = new_file_system()
    above, _, last = workdir.rpartition("/")
    parent = os.open(above or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    attach(clone(parent, last), parent, last)
    opened = {"": os.open(last, DIRECTORY, dir_fd=parent)}
    read_only = MountAttributes(MOUNT_ATTR_RDONLY, 0, 0, 0)
    for number, (path, data, executable) in enumerate(entries):
        *above_it, name = path.split("/")
        place = ""
        for part in above_it:
            inner = place + "/" + part
            if inner not in opened:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=opened[place])
                attach(clone(opened[place], part), opened[place], part)
                opened[inner] = os.open(part, DIRECTORY, dir_fd=opened[place])
            place = inner
        make_place(opened[place], name)
        file = os.open(str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=source)
        os.fchmod(file, 0o555 if executable else 0o444)
        with open(file, "wb") as stream:
            stream.write(data)
        mount = clone(source, str(number))
        checked(LIBC.syscall(MOUNT_SETATTR, mount, b"", AT_EMPTY_PATH, ctypes.byref(read_only), 32))
        attach(mount, opened[place], name)


def main() -> "None":
    pid, container, workdir, entries = marshal.load(sys.stdin.buffer)
    enter(pid, container)
    pin(workdir, entries)


main()
