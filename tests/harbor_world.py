"""Tasks of our own in Harbor's format, one for each of its schemas, and one of the old format."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from docker_image import own_base
from proctor.benchmarks.harbor import HarborBenchmark
from proctor.core.benchmark import DatasetInfo, GradeOptions, GradingContext
from proctor.core.evaluation import Prediction
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.environments.docker import DockerProvider
from setup_world import SETUP_IMAGE, need_machines

_PYTEST = """#!/bin/bash
python3 -m pytest -p no:cacheprovider -rA /tests/test_outputs.py
if [ $? -eq 0 ]; then echo 1 >/logs/verifier/reward.txt; else echo 0 >/logs/verifier/reward.txt; fi
"""
_META = '[metadata]\ndifficulty = "{difficulty}"\ncategory = "{category}"\ntags = ["ours"]\n'


def _config(schema: str, difficulty: str, category: str, rest: str) -> str:
    key = "version" if schema == "1.0" else "schema_version"
    return f'{key} = "{schema}"\n{_META.format(difficulty=difficulty, category=category)}{rest}'


# By task: its files.
TASKS: dict[str, dict[str, str]] = {
    "greet": {
        "task.toml": _config(
            "1.0",
            "easy",
            "files",
            "[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n"
            '[environment]\nmemory = "1G"\nstorage = "10G"\n',
        ),
        "instruction.md": "<!-- a canary of our own -->\n\nWrite `hello` into /app/greeting.txt.\n",
        "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n",
        "solution/solve.sh": "#!/bin/bash\ncat /solution/words/hello.txt >greeting.txt\n",
        "solution/words/hello.txt": "hello\n",
        "tests/test.sh": _PYTEST,
        "tests/test_outputs.py": (
            "from pathlib import Path\n\n\n"
            "def test_greeting():\n    assert Path('/app/greeting.txt').read_text() == 'hello\\n'\n"
        ),
    },
    "count-words": {
        "task.toml": _config(
            "1.2", "medium", "text", "[agent]\ntimeout_sec = 60.0\n[environment]\ncpus = 1\nmemory_mb = 512\n"
        ),
        "instruction.md": "Count the words of /app/text/poem.txt into /app/count.txt.\n",
        "environment/Dockerfile": (
            "FROM ubuntu:24.04 AS base\nWORKDIR /app\nFROM base\nWORKDIR /app/text\nCOPY poem.txt .\n"
        ),
        "environment/poem.txt": "one two\nthree four five\n",
        "solution/solve.sh": "#!/bin/bash\nwc -w <poem.txt >../count.txt\n",
        "tests/test.sh": _PYTEST,
        "tests/test_outputs.py": (
            "from pathlib import Path\n\n\ndef test_count():\n    assert int(Path('/app/count.txt').read_text()) == 5\n"
        ),
    },
    "serve": {
        "task.toml": _config("1.3", "medium", "services", "[agent]\ntimeout_sec = 60.0\n"),
        "instruction.md": "Serve the text `up` at http://localhost:8000/status, and leave the server running.\n",
        "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n",
        "solution/solve.sh": (
            "#!/bin/bash\nmkdir -p site && printf up >site/status && cd site\n"
            "nohup python3 -m http.server 8000 >/dev/null 2>&1 &\n"
            "until (echo >/dev/tcp/localhost/8000) 2>/dev/null; do sleep 0.1; done\n"
        ),
        "tests/test.sh": _PYTEST,
        "tests/test_outputs.py": (
            "from urllib.request import urlopen\n\n\n"
            "def test_status():\n    assert urlopen('http://localhost:8000/status').read() == b'up'\n"
        ),
    },
    "repair": {
        "task.toml": _config(
            "1.4",
            "hard",
            "scripts",
            '[task]\nname = "proctor/repair"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n'
            '[verifier.env]\nWANTED = "${PROCTOR_TEST_WANTED:-6}"\n[solution.env]\nOPERATOR = "+"\n'
            '[environment]\nnetwork_mode = "no-network"\n[environment.env]\nGREETING = "hi"\n'
            '[environment.healthcheck]\ncommand = "test -x /app/add.sh -a -e /tmp/entered"\ninterval = 0.1\n',
        ),
        "instruction.md": "/app/add.sh should print the sum of its arguments. Fix it.\n",
        "environment/Dockerfile": (
            "FROM ubuntu:24.04\nWORKDIR /app\nCOPY add.sh .\n"
            'ENTRYPOINT ["/bin/sh", "-c", "touch /tmp/entered; exec \\"$@\\"", "entry"]\n'
        ),
        "environment/add.sh": '#!/bin/sh\necho "$1 - $2 - $3"\n',
        "solution/solve.sh": (
            "#!/bin/bash\nprintf '#!/bin/sh\\necho $(($1 %s $2 %s $3))\\n' $OPERATOR $OPERATOR >add.sh\n"
        ),
        "tests/test.sh": (
            "#!/bin/bash\nruns=0 right=0\n./add.sh 1 2 3 >/dev/null && runs=1\n"
            '[ "$(./add.sh 1 2 3)" = "$WANTED" ] && right=1\n'
            'printf \'{"reward": %s, "runs": %s}\\n\' $right $runs >/logs/verifier/reward.json\n'
        ),
    },
    "recover": {
        "task.toml": _config(
            "1.1", "medium", "git", '[environment]\ndocker_image = "proctor-test/ready:1"\nworkdir = "/srv/work"\n'
        ),
        "instruction.md": "Make a git repository in /srv/work with one commit that holds a file `kept`.\n",
        "solution/solve.sh": (
            "#!/bin/bash\ngit init -q . && touch kept && git add kept\n"
            "git -c user.name=a -c user.email=a@b commit -qm kept\n"
        ),
        "tests/test.sh": _PYTEST,
        "tests/test_outputs.py": (
            "import subprocess\n\n\n"
            "def test_kept():\n"
            "    git = ['git', '-c', 'safe.directory=*', '-C', '/srv/work']\n"
            "    said = subprocess.check_output([*git, 'ls-tree', '--name-only', 'HEAD'])\n"
            "    assert said == b'kept\\n'\n"
        ),
    },
}
OLD_TASK = {
    "task.yaml": (
        "instruction: |-\n  Sort /app/names.txt into /app/sorted.txt.\n"
        "author_name: us\ndifficulty: easy\ncategory: files\n"
        "tags: [ours]\nparser_name: pytest\nmax_agent_timeout_sec: 120.0\nmax_test_timeout_sec: 30.0\n"
        "run_tests_in_same_shell: false\n"
    ),
    "task.hard.yaml": "instruction: Sort it without being told which file.\ndifficulty: hard\ncategory: files\n",
    "Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\nCOPY names.txt ./\n",
    "docker-compose.yaml": "services:\n  client:\n    build: .\n",
    "names.txt": "b\na\n",
    "data/tests/kept.txt": "a folder of this name below is the Dockerfile's\n",
    "solution.sh": "#!/bin/bash\nsort names.txt >sorted.txt\n",
    "run-tests.sh": "#!/bin/bash\npython3 -m pytest -p no:cacheprovider -rA $TEST_DIR/test_outputs.py\n",
    "tests/test_outputs.py": (
        "from pathlib import Path\n\n\n"
        "def test_sorted():\n    assert Path('/app/sorted.txt').read_text() == 'a\\nb\\n'\n"
    ),
}


def write_task(folder: Path, files: dict[str, str]) -> Path:
    """A task folder with these files."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if name.endswith(".sh") else 0o644)
    return folder


@contextmanager
def images() -> Iterator[dict[str, str]]:
    """The images to use in the place of those that tasks name. What is built on them goes with them."""
    need_machines()
    with own_base(SETUP_IMAGE) as base:
        yield {"ubuntu:24.04": base, "proctor-test/ready:1": base}


@pytest.fixture(scope="module")
def image_map() -> Iterator[dict[str, str]]:
    with images() as made:
        yield made


@pytest.fixture
async def provider(image_map: dict[str, str]) -> AsyncIterator[DockerProvider]:
    made = DockerProvider(image_map=image_map)
    yield made
    await made.close()


async def verdict_of(
    bench: HarborBenchmark, task: Task, prediction: Prediction, provider: DockerProvider, folder: Path
) -> Verdict:
    """What is made of what was collected from a machine."""
    if prediction.patch_kind is PatchKind.ARTIFACTS:
        context = GradingContext(provider=provider, folder=folder, options=GradeOptions())
        prediction = await bench.evidence_for(task, prediction, context)
    return bench.judge(task, prediction.content)


def write_tasks(folder: Path) -> Path:
    """All of them, the old one too."""
    for name, files in TASKS.items():
        write_task(folder / name, files)
    write_task(folder / "sort-names", OLD_TASK)
    return folder


def opened(folder: Path, *, grace_seconds: float = 3.0) -> HarborBenchmark:
    """A folder of tasks in the new format as a benchmark; what serves nothing is waited for that long."""
    record = DatasetInfo(
        benchmark="harbor", split="other", origin="a test", revision="", digest="test", tasks=1, fetched_at=""
    )
    folders = sorted(file.parent for file in folder.glob("*/task.toml"))
    return HarborBenchmark("harbor", folders, record, "other", variables={}, grace_seconds=grace_seconds)
