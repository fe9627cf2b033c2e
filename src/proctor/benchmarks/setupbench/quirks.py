"""What is known of single tasks: what they need beside a machine, and where their own grader is wrong.

All of it was found by running correct, bare and half-done set-ups. A grader is never changed: the official verdict
stays what its command says, and ours stands beside it.
"""

from enum import StrEnum
from typing import Final

from proctor.benchmarks.setupbench.rows import SetupBenchFamily, SetupBenchTask
from proctor.core.record import Record


class Requirements(StrEnum):
    """What a task needs beside a container and the packages of a distribution."""

    PACKAGES = "A"  # the distribution's packages and PyPI
    CHECKOUT = "B"  # likewise, and the repository
    CHECKOUT_NODE = "B-node"  # likewise, with npm's registry and a newer Node than the distribution's
    PRIVATE_IMAGE = "B-img"  # likewise, and an image that only its makers can pull; node:16 stands in
    OTHER_HOSTS = "C"  # further hosts
    UNPASSABLE = "X"  # nothing more, but the published grader cannot pass


_NODE: Final = frozenset(
    """actions-cache-81382a7 beautify-web-js-beautify-6de9268 danwahlin-angular-jumpstart-12fa4e4
    dishait-tov-template-39c0898 graphql-dataloader-003c045 hoodiehq-hoodie-bd1354f hybridgroup-cylon-0ba0301
    lhartikk-naivechain-dfd2481 melt-ui-melt-ui-c566aae microsoft-typescript-vue-starter-c451742
    transitive-bull-chatgpt-api-811ae8f""".split()  # noqa: SIM905 - a list of ids reads best as words
)
_OTHER_HOSTS: Final = {
    "caddy-782a3c7": "the Go module proxy, go.dev",
    "cassandra-73cd2c5": "Maven Central",
    "dbsetup-mongodb-1": "repo.mongodb.org",
    "dbsetup-mongodb-2": "repo.mongodb.org",
    "dbsetup-mongodb-3": "repo.mongodb.org",
    "habitat-5826ff8": "the crates registry, static.rust-lang.org",
    "hackmdio-codimd-f00df50": "npm, and packages from GitHub",
    "johnpapa-vscode-angular-snippets-1551fe1": "npm, the downloads of VS Code",
    "laramies-theharvester-e25c269": "PyPI, a newer Python, the live web",
    "microsoft-azure-pipelines-tasks-bfcd4b2": "npm, NuGet, Azure's storage",
    "monero-8468549": "GitHub, for its submodules",
    "openai-openai-node-8958d97": "npm, the host of the API's description",
    "openstack-stevedore-51134a4": "PyPI, OpenStack's constraints",
    "prometheus-bd5b2ea": "the Go module proxy, go.dev, npm",
    "reflex-dev-reflex-8657976": "PyPI, npm, GitHub",
    "servo-e199a67": "the crates registry, rustup, GitHub",
    "spring-petclinic-2aa53f9": "Maven Central",
    "ta-lib-python-0c957ed": "GitHub or SourceForge, for the C library",
}


class GraderBug(StrEnum):
    """In which way a published grader is wrong."""

    UNPASSABLE = "unpassable"  # no correct set-up passes
    TOO_LENIENT = "too_lenient"  # passes what is not set up
    UNSPECIFIED = "unspecified"  # asks for what the statement does not say, or contradicts
    HANGS = "hangs"  # does not end when all is well
    DRIFTS = "drifts"  # depends on what is the newest version of something today


class Quirk(Record):
    """What is wrong with a task's own grader.

    Attributes:
        strict: the command that decides our own verdict besides the published one; with `instead`, alone.
    """

    bug: GraderBug
    description: str
    strict_command: str | None = None
    replaces_official: bool = False


_CHECK_COUNT: Final = '| grep -q \'^[1-9]\' && echo "Setup successful" || echo "Setup failed"'
_USERS: Final = (
    "PGPASSWORD=benchmark_pass psql -X -U benchmark_user -d benchmark_db -p {port} -tA -c 'SELECT COUNT(*) FROM users;'"
)
_PRODUCTS: Final = "mysql -u root -N -e 'SELECT COUNT(*) FROM benchmark_db.products;'"
_ROWS_NOT_CHECKED: Final = (
    "looks for a digit in output that always ends in '(1 row)', so an empty table passes; and it needs a login by "
    "password on the local socket, which the statement does not say"
)
_LOGIN_NOT_CHECKED: Final = (
    "goes on as the default user when the login fails, so the user that is asked for need not exist"
)
_CHECK_LOGIN: Final = (
    "case $(redis-cli -p {port} -a benchmark_pass --user benchmark_user GET {key} 2>&1) in "
    '*\'AUTH failed\'*) echo "Setup failed" ;; *done*) echo "Setup successful" ;; *) echo "Setup failed" ;; esac'
)

QUIRKS: Final = {
    "bgsetup-autossh-logging": Quirk(
        bug=GraderBug.UNPASSABLE,
        description="looks for a phrase in the log that no version of autossh, OpenSSH or supervisor writes",
        strict_command='sleep 10 && test -s /var/log/autossh.log && ss -ltn | grep -q ":9000" '
        '&& echo "Setup successful" || echo "Setup failed"',
        replaces_official=True,
    ),
    "bgsetup-celery-systemd": Quirk(
        bug=GraderBug.DRIFTS, description="the newest kombu of PyPI does not work with the redis of Ubuntu 22.04"
    ),
    "dbsetup-mysql-1": Quirk(
        bug=GraderBug.TOO_LENIENT,
        description="looks for a table's name only; an empty table passes",
        strict_command=f"{_PRODUCTS} {_CHECK_COUNT}",
    ),
    "dbsetup-mysql-2": Quirk(
        bug=GraderBug.TOO_LENIENT,
        description="looks for a table's name only; the statement asks for a login by password, and this one has none",
        strict_command=f"{_PRODUCTS} {_CHECK_COUNT}",
    ),
    "dbsetup-mysql-3": Quirk(
        bug=GraderBug.UNPASSABLE,
        description="has a space behind -p, so it asks for a password and takes the word for a database; the paper "
        "prints it without",
        strict_command=f"{_PRODUCTS.replace('-u root', '-u benchmark_user -pbenchmark_pass')} {_CHECK_COUNT}",
        replaces_official=True,
    ),
    "dbsetup-postgresql-1": Quirk(
        bug=GraderBug.TOO_LENIENT,
        description=_ROWS_NOT_CHECKED,
        strict_command=f"{_USERS.format(port=5432)} {_CHECK_COUNT}",
    ),
    "dbsetup-postgresql-2": Quirk(
        bug=GraderBug.TOO_LENIENT,
        description=_ROWS_NOT_CHECKED,
        strict_command=f"{_USERS.format(port=5433)} {_CHECK_COUNT}",
    ),
    "dbsetup-postgresql-3": Quirk(
        bug=GraderBug.TOO_LENIENT,
        description=_ROWS_NOT_CHECKED,
        strict_command=f"{_USERS.format(port=5433)} {_CHECK_COUNT}",
    ),
    "dbsetup-redis-2": Quirk(
        bug=GraderBug.TOO_LENIENT,
        description=_LOGIN_NOT_CHECKED,
        strict_command=_CHECK_LOGIN.format(port=6379, key="init_check"),
    ),
    "dbsetup-redis-3": Quirk(
        bug=GraderBug.TOO_LENIENT,
        description=_LOGIN_NOT_CHECKED,
        strict_command=_CHECK_LOGIN.format(port=6380, key="setup:init_check"),
    ),
    "dbsetup-sqlite-1": Quirk(
        bug=GraderBug.UNSPECIFIED,
        description="needs the sqlite3 program, where the statement says that Python's module will do",
    ),
    "hackmdio-codimd-f00df50": Quirk(
        bug=GraderBug.HANGS, description="runs the server in the foreground, so a set-up that works never ends"
    ),
    "nedbat-coveragepy-9d0eb02": Quirk(
        bug=GraderBug.UNSPECIFIED, description="needs CPython 3.10 by name, which Ubuntu 22.04 has"
    ),
    "openstack-stevedore-51134a4": Quirk(
        bug=GraderBug.UNSPECIFIED, description="needs CPython 3.10 by name, which Ubuntu 22.04 has"
    ),
    "ta-lib-python-0c957ed": Quirk(
        bug=GraderBug.TOO_LENIENT,
        description="Python 3.13 prints the line that failed, and the success marker is in it",
    ),
}


def requirements_of(task: SetupBenchTask) -> Requirements:
    """What a task needs."""
    quirk = QUIRKS.get(task.id)
    if quirk is not None and quirk.bug is GraderBug.UNPASSABLE:
        return Requirements.UNPASSABLE
    if task.id in _OTHER_HOSTS or task.row.ecosystem == "bundler-compat":
        return Requirements.OTHER_HOSTS
    match task.row.task_type:
        case SetupBenchFamily.BACKGROUND | SetupBenchFamily.DATABASE:
            return Requirements.PACKAGES
        case SetupBenchFamily.DEPENDENCY:
            return Requirements.PRIVATE_IMAGE
        case SetupBenchFamily.REPOSITORY:
            return Requirements.CHECKOUT_NODE if task.id in _NODE else Requirements.CHECKOUT


def hosts(task: SetupBenchTask) -> str:
    """Which hosts a set-up has to reach, in words."""
    after = _OTHER_HOSTS.get(task.id) or {
        Requirements.CHECKOUT: "PyPI",
        Requirements.CHECKOUT_NODE: "npm",
        Requirements.PRIVATE_IMAGE: "npm",
        Requirements.OTHER_HOSTS: "rubygems.org",
    }.get(requirements_of(task), "PyPI" if task.row.task_type is SetupBenchFamily.BACKGROUND else "")
    first = "GitHub for the checkout" if task.row.repo_url else ""
    return ", ".join(part for part in ("the distribution's packages", first, after) if part)
