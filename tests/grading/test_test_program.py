"""What a test command executes is known without running it."""

import pytest

from proctor.grading.test_program import program_paths

TREE = {
    "tests/run.sh": "#!/bin/sh\nset -e\n. ./env.sh\n"
    "sh tools/check.sh && python3 tools/report.py\n./build/prog --self\n",
    "tools/check.sh": 'cd tests; exec ./run-one "$@"\n',
    "tools/report.py": "import src.main\n",
    "build/prog": "\x7fELF",
    "Makefile": "SRC := a.c\nall: prog\n\tcc -o prog $(SRC)\ntest: all lib.o\n\t@./scripts/test.sh \\\n\t  --fast\n"
    "lint:\n\tsh scripts/lint.sh\n",
    "scripts/test.sh": "node tests/all.js\n",
    "scripts/lint.sh": "true\n",
    "tests/all.js": "require('./a')\n",
    "package.json": '{"scripts": {"pretest": "node scripts/build.js", "test": "A=1 node --test tests/all.js"}}',
    "scripts/build.js": "",
    "gradlew": "#!/bin/sh\nexec java\n",
    "gradle/wrapper/gradle-wrapper.jar": "",
    "tox.ini": "[testenv]\n",
    "main.py": "",
    "loop.sh": "sh loop.sh\n",
}


def read(path: str) -> bytes | None:
    text = TREE.get(path)
    return None if text is None else text.encode()


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        (["sh", "tests/run.sh"], {"tests/run.sh", "tools/check.sh"}),
        (["bash", "-eu", "./tools/report.py"], {"tools/report.py"}),
        (["sh", "-c", "cd . && sh tools/check.sh | tee log; ./build/prog"], {"tools/check.sh"}),
        (["env", "-i", "A=1", "timeout", "30s", "./tests/all.js"], {"tests/all.js"}),
        (["make", "-s", "test"], {"Makefile", "scripts/test.sh", "tests/all.js"}),
        (["make"], {"Makefile"}),
        (["npm", "test"], {"package.json", "tests/all.js"}),
        (["npm", "run", "test", "--silent"], {"package.json", "tests/all.js"}),
        (["./gradlew", "test"], {"gradlew", "gradle/wrapper/gradle-wrapper.jar"}),
        (["tox", "-e", "py"], {"tox.ini"}),
        (["python3", "-m", "pytest", "main.py"], set()),
        (["go", "test", "-json", "./..."], set()),
        (["cargo", "test"], set()),
        (["sh", "/usr/bin/true"], set()),
        (["sh", "../main.py"], set()),
        (["sh", "loop.sh"], {"loop.sh"}),
        (["make", "no-such"], {"Makefile"}),
        ([], set()),
    ],
)
def test_programs_are_followed_from_the_command(command: list[str], paths: set[str]) -> None:
    assert set(program_paths(command, read)) == paths
