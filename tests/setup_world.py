"""SetupBench on this machine: rows and fixtures of our own in its format, and set-ups for some tasks.

A set-up is done in two steps, on an image that has the packages and nothing else: after the first it looks done, and
is not; after both it is.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from docker_image import need_docker
from image_check import need_image
from paths import sample_data
from proctor.benchmarks.setupbench import SetupBench, read_tasks
from proctor.core.benchmark import DatasetInfo

SETUP_IMAGE = "proctor-test/setup:bookworm"
IMAGES = {"ubuntu:22.04": SETUP_IMAGE}


def need_machines() -> None:
    """Skip the test where no machine can be had that it could set up."""
    need_docker()
    need_image(SETUP_IMAGE, "tests/make_setup_image.sh")


@dataclass(frozen=True)
class SetUp:
    half: str
    rest: str
    files: dict[str, str]
    prerunner: str | None = None


_APP = """
from flask import Flask

app = Flask(__name__)


@app.route("/")
def index():
    return "Hello from Gunicorn!"
"""
_SUPERVISED = """
cat >/etc/supervisor/conf.d/it.conf <<EOF
[program:it]
command={command}
directory=/testbed
autorestart=true
EOF
[ -S /var/run/supervisor.sock ] || /usr/bin/supervisord -c /etc/supervisor/supervisord.conf
supervisorctl update
{until}
"""
_SOCKET = "for _ in $(seq 100); do [ -S /tmp/gunicorn.sock ] && break; sleep 0.1; done"
_POSTGRES = """
pg_ctlcluster 15 main start
su postgres -c "psql -c \\"CREATE ROLE benchmark_user LOGIN PASSWORD 'benchmark_pass'\\""
su postgres -c "createdb -O benchmark_user benchmark_db"
sed -i 's/^local  *all  *all  *peer/local all all scram-sha-256/' /etc/postgresql/15/main/pg_hba.conf
pg_ctlcluster 15 main reload
PGPASSWORD=benchmark_pass psql -U benchmark_user -d benchmark_db -f /testbed/schema.sql
"""
_REDIS = "until redis-cli PING; do sleep 0.1; done"
_TUNNEL = (
    "autossh -M 0 -f -N -o StrictHostKeyChecking=no -o ExitOnForwardFailure=yes -R 9000:localhost:22 root@localhost"
)


def _supervised(command: str, until: str = "sleep 1") -> str:
    return _SUPERVISED.format(command=command, until=until)


SET_UPS = {
    "bgsetup-autossh-reverse-tunnel": SetUp(
        half="mkdir -p /run/sshd && /usr/sbin/sshd",
        rest="""
        mkdir -p -m 700 /root/.ssh
        ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
        cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
        """
        + _TUNNEL
        + "\nfor _ in $(seq 100); do ss -ltn | grep -q :9000 && break; sleep 0.1; done\n",
        files={},
    ),
    "bgsetup-gunicorn-nginx-socket": SetUp(
        half=_supervised("/usr/bin/gunicorn --bind unix:/tmp/gunicorn.sock app:app", until=_SOCKET) + "nginx\n",
        rest="""
        cat >/etc/nginx/sites-enabled/default <<'EOF'
        server { listen 80 default_server; location / { proxy_pass http://unix:/tmp/gunicorn.sock; } }
EOF
        nginx -s reload
        sleep 0.5
        """,
        files={"app.py": _APP},
    ),
    "bgsetup-gunicorn-systemd-socket": SetUp(
        half=_supervised("/usr/bin/gunicorn --bind 127.0.0.1:8000 app:app"),
        rest=_supervised("/usr/bin/gunicorn --bind unix:/tmp/gunicorn.sock app:app", until=_SOCKET),
        files={"app.py": _APP},
    ),
    "dbsetup-postgresql-1": SetUp(
        half=_POSTGRES,
        rest="PGPASSWORD=benchmark_pass psql -U benchmark_user -d benchmark_db -f /testbed/seed.sql\n",
        files={
            "schema.sql": "CREATE TABLE users (id serial PRIMARY KEY, name text NOT NULL);\n",
            "seed.sql": "INSERT INTO users (name) VALUES ('ada'), ('grace');\n",
        },
    ),
    "dbsetup-redis-1": SetUp(
        half=f"redis-server --daemonize yes\n{_REDIS}",
        rest="redis-cli --eval /testbed/init.lua",
        files={"init.lua": 'return redis.call("SET", "init_check", "done")\n'},
    ),
    "dbsetup-redis-2": SetUp(
        half="""
        redis-server --daemonize yes --save 60 1
        until redis-cli PING; do sleep 0.1; done
        for script in /testbed/scripts/*.lua; do redis-cli --eval "$script"; done
        """,
        rest="redis-cli ACL SETUSER benchmark_user on '>benchmark_pass' '~flags:*' '~init_check' +@all",
        files={
            "scripts/01_users.lua": 'return redis.call("SET", "user:1", "ada")\n',
            "scripts/02_flags.lua": 'return redis.call("SET", "init_check", "done")\n',
        },
    ),
    "dbsetup-redis-3": SetUp(
        half=f"""
        redis-server --daemonize yes --port 6379
        {_REDIS}
        redis-cli --eval /testbed/scripts/setup.lua setup , 1 done
        """,
        rest="""
        sed -i '/^nonsense/d' /etc/redis/redis.conf
        redis-server /etc/redis/redis.conf
        until redis-cli -p 6380 PING; do sleep 0.1; done
        redis-cli -p 6380 -a benchmark_pass --user benchmark_user --eval /testbed/scripts/setup.lua setup , 1 done
        """,
        files={"scripts/setup.lua": 'return redis.call("SET", KEYS[1] .. ":init_check", ARGV[2])\n'},
        prerunner="""
nohup sh -c 'while true; do sleep 60; done' >/dev/null 2>&1 &
mkdir -p /etc/redis
cat >/etc/redis/redis.conf <<EOF
port 6380
daemonize yes
save 900 1
nonsense yes
user benchmark_user on >benchmark_pass ~setup* +@all
EOF
""",
    ),
    "dbsetup-sqlite-1": SetUp(
        half="mkdir -p /data; sqlite3 /data/test.db 'CREATE TABLE items (name TEXT)'",
        rest="python3 /testbed/init_sqlite.py",
        files={
            "init_sqlite.py": """
import sqlite3

with sqlite3.connect("/data/test.db") as connection:
    connection.execute("INSERT INTO items VALUES ('bolt'), ('nut')")
"""
        },
    ),
}


def make_copy(folder: Path, rows: Path | None = None) -> Path:
    """A copy of the benchmark, as its repository lays it out; of our rows, unless there are others."""
    scenarios = folder / "setupbench" / "scenarios"
    shutil.copytree(rows or sample_data("setupbench"), scenarios)
    for task_id, made in SET_UPS.items():
        for name, text in made.files.items():
            file = folder / "setupbench" / "fixtures" / task_id / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        if made.prerunner is not None:
            script = folder / "setupbench" / "fixtures" / f"prerunner-{task_id}" / "prerunner.sh"
            script.parent.mkdir(parents=True)
            script.write_text(made.prerunner)
    return folder


def make_benchmark(folder: Path, rows: Path | None = None) -> SetupBench:
    """The benchmark, opened from such a copy."""
    tasks = read_tasks(make_copy(folder, rows))
    record = DatasetInfo(
        benchmark="setupbench",
        split="all",
        origin="a test",
        revision="",
        digest="test",
        tasks=len(tasks),
        fetched_at="",
    )
    return SetupBench(tasks, record)


@pytest.fixture
def setupbench(tmp_path: Path) -> SetupBench:
    return make_benchmark(tmp_path / "copy")
