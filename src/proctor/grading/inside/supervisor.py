"""The trusted half of a test run: starts the worker, reads its records, and signs them for Proctor.

It arrives over stdin and holds the key; the worker, which runs the tested code, has neither. Its stdout carries
records and nothing else: the worker's own output goes to stderr. A record is a line
``<mac> <kind> <field>...``: fields are hexadecimal UTF-8, and each mac covers the mac before it, so that no record
can be forged, dropped, repeated or moved.
"""

import os
import select
import sys
from _blake2 import blake2b

MAC_BYTES = 16
MAX_LINE_BYTES = 4000000
GRACE_MS = 5000
# What a worker is started with. Its code and its token come through pipes: nothing lies on disk to be replaced. The
# code comes twice, compiled for one Python and as text for all others.
WORKER_BOOT = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import builtins, io, marshal
def program():
    magic, size, rest = io.open(int(sys.argv[1]), "rb").read().split(b" ", 2)
    if bytes.fromhex(magic.decode()) == sys.modules["_frozen_importlib_external"].MAGIC_NUMBER:
        stream = io.BytesIO(rest)
        parts, code = marshal.load(stream)
        job = marshal.load(stream)
    else:
        parts, code, job = eval(rest[int(size):])
        code = compile(code, "<proctor>", "exec")
    job.update(parts)
    return code, {"__name__": "proctor", "__builtins__": dict(vars(builtins)), "JOB": job}
exec(*program())
"""
# These would change the worker before our own code runs.
WITHHELD_VARIABLES = ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTEST_ADDOPTS", "PYTEST_PLUGINS")
# Where the worker finds what PYTHONPATH was, and where it may keep files of its own.
PYTHONPATH_VARIABLE = "PROCTOR_PYTHONPATH"
PRIVATE_DIR_VARIABLE = "PROCTOR_PRIVATE"
PYTHON_FLAGS = ("-s", "-S", "-B")


class MacChain:
    """Macs of one side of a conversation."""

    def __init__(self, key: "bytes") -> "None":
        self.base = blake2b(key=key, digest_size=MAC_BYTES)
        self.last = b""

    def next(self, payload: "bytes") -> "bytes":
        state = self.base.copy()
        state.update(self.last + payload)
        self.last = state.hexdigest().encode()
        return self.last


def write_all(descriptor: "int", data: "bytes") -> "None":
    while data:
        data = data[os.write(descriptor, data) :]


def emit(chain: "MacChain", kind: "str", *fields: "str") -> "None":
    words = [kind] + [field.encode("utf-8", "surrogatepass").hex() or "-" for field in fields]
    payload = " ".join(words).encode()
    write_all(1, chain.next(payload) + b" " + payload + b"\n")


def harden() -> "None":
    """Close this process to its children: no reading of its memory or descriptors, and orphans come to us."""
    try:
        import ctypes  # some builds of Python do not have it

        libc = ctypes.CDLL(None)
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    except (ImportError, OSError, AttributeError):
        return


def start_worker(source: "int", token: "int", records: "int", private: "str") -> "int":
    pid = os.fork()
    if pid:
        return pid
    try:
        for descriptor in (source, token, records):
            os.set_inheritable(descriptor, True)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        os.chdir("/")
        variables = {name: value for name, value in os.environ.items() if name not in WITHHELD_VARIABLES}
        variables.update({PYTHONPATH_VARIABLE: os.environ.get("PYTHONPATH") or "", PRIVATE_DIR_VARIABLE: private})
        descriptors = [str(source), str(token), str(records)]
        os.execve(sys.executable, [sys.executable, *PYTHON_FLAGS, "-c", WORKER_BOOT] + descriptors, variables)
    finally:
        os._exit(127)


class WorkerRelay:
    """Forwards the worker's records, as long as they are its own."""

    def __init__(self, chain: "MacChain", token: "bytes") -> "None":
        self.chain = chain
        self.worker = MacChain(token)
        self.pending = b""
        self.forwarded = 0
        self.forged = False
        self.final = False
        self.code = 1

    def feed(self, data: "bytes") -> "None":
        if self.forged:
            return
        lines = (self.pending + data).split(b"\n")
        self.pending = lines.pop()
        for line in lines:
            mac, _, payload = line.partition(b" ")
            if self.final or self.worker.next(payload) != mac:
                self.mark_forged()
                return
            if payload.startswith(b"final "):
                self.final = True
                self.code = int(bytes.fromhex(payload.split()[1].decode()))
            self.forwarded += 1
            record = b"worker " + payload
            write_all(1, self.chain.next(record) + b" " + record + b"\n")
        if len(self.pending) > MAX_LINE_BYTES:
            self.mark_forged()

    def mark_forged(self) -> "None":
        self.forged = True
        self.pending = b""


def relay_records(relay: "WorkerRelay", records: "int", pid: "int") -> "int":
    """Forward the worker's records until it has ended, and give its wait status.

    The end of the process decides, not the end of the pipe: what it left in the background may hold the pipe open.
    """
    poll = select.poll()
    poll.register(records, select.POLLIN)
    is_open = True
    pause = 1
    waited = 0
    while True:
        if is_open and poll.poll(pause):
            data = os.read(records, 65536)
            relay.feed(data)
            is_open = bool(data)
            continue
        if not is_open:
            select.select([], [], [], pause / 1000.0)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        pause = min(2 * pause, 50)
        if relay.final:
            # The worker leaves at once after its last record; one that stays is no longer ours.
            waited += pause
            if waited > GRACE_MS:
                os.kill(pid, 9)
    while is_open and poll.poll(0):
        data = os.read(records, 65536)
        relay.feed(data)
        is_open = bool(data)
    return status


def kill_strays() -> "int":
    """Kill what the tests left running; with us as their reaper, children of children turn up here too."""
    ended = 0
    for _ in range(10000):
        try:
            reaped = os.waitpid(-1, os.WNOHANG)[0]
        except ChildProcessError:
            break
        if reaped:
            continue
        running = child_pids()
        if not running:
            break
        for child in running:
            os.kill(child, 9)
            os.waitpid(child, 0)
            ended += 1
    return ended


def child_pids() -> "list[int]":
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []  # an environment without /proc keeps its strays until it is stopped
    found = []
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields and int(fields[1]) == os.getpid() and fields[0] != b"Z":
            found.append(int(name))
    return found


def main(key: "str", program: "bytes") -> "int":
    chain = MacChain(bytes.fromhex(key))
    emit(chain, "hello", ".".join(map(str, sys.version_info[:3])))
    token = os.urandom(32)
    source_read, source_write = os.pipe()
    token_read, token_write = os.pipe()
    records_read, records_write = os.pipe()
    private = os.path.join(os.environ.get("TMPDIR") or "/tmp", "proctor-" + os.urandom(16).hex())
    pid = start_worker(source_read, token_read, records_write, private)
    for descriptor in (source_read, token_read, records_write):
        os.close(descriptor)
    harden()
    listener = WorkerRelay(chain, token)
    try:
        write_all(token_write, token)
        write_all(source_write, program)
    except BrokenPipeError:
        pass  # it ended before it read this: its status says how
    os.close(token_write)
    os.close(source_write)
    status = relay_records(listener, records_read, pid)
    strays = kill_strays()
    if listener.forged:
        emit(chain, "forged")
    emit(chain, "end", str(status), str(listener.forwarded), str(strays))
    if os.path.exists(private):
        import shutil  # only now and then needed

        shutil.rmtree(private, ignore_errors=True)
    return listener.code
