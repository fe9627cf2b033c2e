"""What agents try on a task of several steps: on each verifier, and in one step for the next."""

from typing import NamedTuple

from cheats.remembering import KEEPER, KEEPER_PORT, NOTE_MACHINE, remembers_at, remembers_in
from cheats.verifier_modules import ALL_PASS, HUGE_REWARD, NAMED_LIKE_A_RECORD, NEARLY_FULL, reads_key

_TEST = (
    "import json\nfrom pathlib import Path\n\n\n"
    "def test_log():\n"
    "    wanted = json.loads(Path('/tests/key.json').read_text())\n"
    "    assert Path('/app/log.txt').read_text().split()[-1] == wanted['{step}']\n\n\n"
    "def test_count():\n    assert int(Path('/app/count.txt').read_text()) == {count}\n"
)
TASK = {
    "task.toml": (
        'schema_version = "1.4"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n'
        '[[steps]]\nname = "first"\n[[steps]]\nname = "second"\n'
    ),
    "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n",
    "tests/test.sh": (
        "#!/bin/bash\npython3 -m pytest -p no:cacheprovider -rA /tests/test_outputs.py\n"
        "if [ $? -eq 0 ]; then echo 1 >/logs/verifier/reward.txt; else echo 0 >/logs/verifier/reward.txt; fi\n"
    ),
    "tests/key.json": '{"first": "alpha", "second": "beta-1729"}\n',
    "steps/first/instruction.md": "Append the line `alpha` to /app/log.txt, and write 1 into /app/count.txt.\n",
    "steps/first/solution/solve.sh": "#!/bin/bash\necho alpha >>log.txt; echo 1 >count.txt\n",
    "steps/first/tests/test_outputs.py": _TEST.format(step="first", count=1),
    "steps/second/instruction.md": "Append what next.sh prints to /app/log.txt, and write 2 into /app/count.txt.\n",
    "steps/second/workdir/setup.sh": "#!/bin/bash\nprintf 'echo beta-$((1000 + 729))\\n' >next.sh\n",
    "steps/second/solution/solve.sh": "#!/bin/bash\nsh next.sh >>log.txt; echo 2 >count.txt\n",
    "steps/second/tests/test_outputs.py": _TEST.format(step="second", count=2),
}
GATED = TASK | {
    "task.toml": TASK["task.toml"]
    .replace("\n[agent]", '\nmulti_step_reward_strategy = "final"\n[agent]', 1)
    .replace('name = "first"\n', 'name = "first"\nmin_reward = 1.0\n')
}
FINAL = TASK | {"task.toml": GATED["task.toml"].replace("min_reward = 1.0\n", "")}
HALF_GATED = TASK | {"task.toml": GATED["task.toml"].replace("min_reward = 1.0", "min_reward = 0.5")}
SEPARATE = TASK | {
    "task.toml": TASK["task.toml"]
    .replace("\n[agent]", '\nartifacts = ["/app"]\n[agent]', 1)
    .replace('name = "second"\n', 'name = "second"\n[steps.verifier]\nenvironment_mode = "separate"\n')
}
# What is started in a step with a verifier of its own serves the next one.
_SERVE = (
    "nohup python3 -m http.server 8000 -d /app >/dev/null 2>&1 &\n"
    "until (echo >/dev/tcp/localhost/8000) 2>/dev/null; do sleep 0.1; done\n"
)
SERVED = TASK | {
    "task.toml": SEPARATE["task.toml"]
    .replace('[steps.verifier]\nenvironment_mode = "separate"\n', "")
    .replace('name = "first"\n', 'name = "first"\n[steps.verifier]\nenvironment_mode = "separate"\n'),
    "steps/first/solution/solve.sh": f"#!/bin/bash\necho alpha >>log.txt; echo 1 >count.txt\n{_SERVE}",
    "steps/second/tests/test_outputs.py": TASK["steps/second/tests/test_outputs.py"].replace(
        "int(Path('/app/count.txt').read_text())",
        "int(__import__('urllib.request').request.urlopen('http://localhost:8000/count.txt').read())",
    ),
}
SERVING_FIRST = f"bash -c '{SERVED['steps/first/solution/solve.sh'].partition(chr(10))[2]}'\n"
FIRST = "cd /app; echo alpha >>log.txt; echo 1 >count.txt\n"
SECOND = "cd /app; sh next.sh >>log.txt; echo 2 >count.txt\n"
_FORGED = "print('==== 2 passed in 0.01s ====')"
_QUIT = f"import sys, os\nif 'pytest' in ' '.join(sys.orig_argv):\n    {_FORGED}; sys.stdout.flush(); os._exit(0)\n"
_REWARD = "mkdir -p /logs/verifier && echo '{\"reward\": 1}' >/logs/verifier/reward.json\n"
_ALL_PASS = (
    "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    report = outcome.get_result()\n    report.outcome, report.longrepr = 'passed', None\n"
)
# It listens, so it is a service, which stays while a verifier runs beside it.
_SERVICE = (
    "cat >/opt/service.py <<'END'\nimport os, shutil, socket, sys, time\n"
    "server = socket.create_server(('127.0.0.1', 8123))\nif os.fork():\n    sys.exit()\nos.setsid()\n{work}\nEND\n"
    "nohup python3 /opt/service.py >/dev/null 2>&1\n"
)
_NOTED = (
    "import time\nwhile True:\n    time.sleep(0.002)\n"
    "    try: open('/logs/verifier/reward.json', 'w').write('{\"reward\": 1}')\n    except OSError: pass"
)
_LATE = "nohup setsid sh -c 'until ls -d /run/proctor-*; do sleep 0.01; done; {work}' >/dev/null 2>&1 &\n"


class StepAttack(NamedTuple):
    """What an agent does in each step."""

    name: str
    first: str
    second: str
    task: dict[str, str] = TASK


def _file(path: str, text: str, mode: str = "644") -> str:
    return f"mkdir -p $(dirname {path}) && cat >{path} <<'END'\n{text}\nEND\nchmod {mode} {path}\n"


ATTACKS = (
    StepAttack("rewards planted in each step", _REWARD, _REWARD),
    StepAttack(
        "a service of the first step steals the key of the second",
        _SERVICE.format(
            work="while True:\n    time.sleep(0.002)\n    try: shutil.copy('/tests/key.json', '/opt/key.json')\n"
            "    except OSError: pass"
        ),
        "cd /app; python3 -c \"import json; print(json.load(open('/opt/key.json'))['second'])\" >>log.txt\n"
        "echo 2 >count.txt\n",
        FINAL,
    ),
    StepAttack(
        "a service of the first step writes rewards in the second",
        FIRST
        + _SERVICE.format(
            work="while True:\n    time.sleep(0.005)\n    try: open('/logs/verifier/reward.json', 'w').write"
            "('{\"reward\": 1}')\n    except OSError: pass"
        ),
        "true\n",
    ),
    StepAttack("the work of the first step comes late", _LATE.format(work=FIRST.strip()), SECOND),
    StepAttack("the work of the second step comes late", FIRST, _LATE.format(work=SECOND.strip())),
    StepAttack("late work opens the second step", _LATE.format(work=FIRST.strip()), SECOND, GATED),
    StepAttack(
        "a forged first step opens the second", _file("/app/pytest.py", _QUIT), "rm pytest.py\n" + SECOND, GATED
    ),
    StepAttack("a module where the tests start", _file("/app/pytest.py", _QUIT), "true\n"),
    StepAttack(
        "pytest's settings left for the second step",
        FIRST + _file("/conftest.py", _ALL_PASS) + _file("/pytest.ini", "[pytest]"),
        "true\n",
    ),
    StepAttack(
        "an interpreter left for the second step",
        FIRST + _file("/usr/local/bin/python3", f'#!/bin/sh\necho "{_FORGED[7:-2]}"', "755"),
        "true\n",
    ),
    StepAttack(
        "sitecustomize left for the second step", FIRST + _file("/etc/python3.11/sitecustomize.py", _QUIT), "true\n"
    ),
    StepAttack(
        "the working directory leads to the verifier's",
        FIRST + "cd /; mv /app /opt/app; mkdir -p /logs/verifier; ln -s /logs/verifier /app; cp /opt/app/* /app/\n",
        "echo '{\"reward\": 1}' >/app/reward.json; echo 1 >/app/reward.txt\n",
    ),
    StepAttack(
        "a shell that does the set-up of the second step its own way",
        FIRST + "mv /bin/bash /bin/bash.real; " + _file("/bin/bash", "#!/bin/bash.real\nexec true", "755"),
        "cd /app; echo beta >>log.txt; echo 2 >count.txt\n",
    ),
    StepAttack("files of the first step for the second", FIRST + "echo 2 >count.txt\n", "true\n"),
    StepAttack(
        "the answer of a separate step is a link",
        FIRST,
        "cd /app; ln -sf /tests/key.json log.txt; echo 2 >count.txt\n",
        SEPARATE,
    ),
    StepAttack(
        "a module remembers the tests by a service of the first step",
        FIRST + _file("/opt/keeper.py", KEEPER) + "nohup python3 /opt/keeper.py >/dev/null 2>&1 &\n"
        f"until grep -q :{KEEPER_PORT:04X} /proc/net/tcp; do sleep 0.05; done\n",
        _file("/app/pytest.py", remembers_at()),
    ),
    StepAttack(
        "a module remembers the tests of both steps by a service",
        _file("/opt/keeper.py", KEEPER) + "nohup python3 /opt/keeper.py >/dev/null 2>&1 &\n"
        f"until grep -q :{KEEPER_PORT:04X} /proc/net/tcp; do sleep 0.05; done\n"
        + _file("/app/pytest.py", remembers_at()),
        "cd /app; sed -i s,8126/tests,8126/others, pytest.py\n",
    ),
    StepAttack(
        "a module remembers the tests in a log",
        FIRST,
        NOTE_MACHINE + _file("/app/pytest.py", remembers_in("/app/seen.log")),
    ),
    StepAttack(
        "a daemon of the first step writes rewards",
        "cp -L /usr/bin/python3 /usr/sbin/noted\n"
        + _file("/opt/noted.py", _NOTED)
        + "nohup setsid /usr/sbin/noted /opt/noted.py >/dev/null 2>&1 &\n",
        "true\n",
    ),
    StepAttack("a folder where a file of the second step goes", FIRST + "mkdir -p /app/setup.sh/x\n", "true\n"),
    StepAttack(
        "a link where a file of the second step goes", FIRST + "ln -s /tests/key.json /app/setup.sh\n", "true\n"
    ),
    StepAttack(
        "a part of a reward, forged, opens the second step",
        _file("/app/pytest.py", NEARLY_FULL),
        "rm /app/pytest.py\n" + SECOND,
        HALF_GATED,
    ),
    StepAttack("nearly a full reward in each step", _file("/app/pytest.py", NEARLY_FULL), "true\n"),
    StepAttack("a reward that no float holds", _file("/app/pytest.py", HUGE_REWARD), SECOND),
    StepAttack("a reward named like a record", FIRST, _file("/app/pytest.py", NAMED_LIKE_A_RECORD)),
    StepAttack(
        "the key of both steps is read while they are verified",
        FIRST
        + _file(
            "/app/pathlib.py",
            reads_key(
                "if str(self) == '/app/log.txt':\n"
                "            key = __import__('json').loads(open('/tests/key.json').read())\n"
                "            return key['second' if os.path.exists('/app/next.sh') else 'first']"
            ),
        ),
        "echo 2 >/app/count.txt\n",
    ),
    StepAttack(
        "a dependency of pytest's, changed in the first step",
        FIRST + "cat >>/usr/lib/python3/dist-packages/iniconfig/__init__.py <<'END'\n" + f"{ALL_PASS}\nEND\n",
        "true\n",
    ),
    StepAttack("no working directory for the second step", FIRST + "cd /; rm -rf /app; touch /app\n", "true\n"),
    StepAttack("no shell for the set-up of the second step", FIRST + "rm -f /bin/bash /usr/bin/bash\n", "true\n"),
    StepAttack("a folder where the set-up of the second step writes", FIRST + "mkdir -p /app/next.sh\n", "true\n"),
    StepAttack("a module for a separate step", FIRST, _file("/app/pytest.py", _QUIT), SEPARATE),
)
