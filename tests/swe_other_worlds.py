"""Instances in the shapes of SWE-bench Pro, SWE-EVO and FeatureBench, and predictions of several kinds to them."""

import json
from pathlib import Path
from typing import Any

from swe_world import Repository, make_image

_BUGGY = """\
    def double(number):
        return number + number


    def triple(number):
        return number + number


    def square(number):
        return number + number
"""
_FIXED = _BUGGY.replace("triple(number):\n        return number + number", "triple(number):\n        return 3 * number")
_FIXED = _FIXED.replace("square(number):\n        return number + number", "square(number):\n        return number**2")
_HALF = _BUGGY.replace("triple(number):\n        return number + number", "triple(number):\n        return 3 * number")
_OLD_TESTS = """\
    from calc.{name} import double


    def test_double():
        assert double(3) == 6
"""
_NEW_TESTS = """\
    from calc.{name} import double, square, triple


    def test_double():
        assert double(3) == 6


    def test_triple():
        assert triple(3) == 9


    def test_square():
        assert square(3) == 9
"""
KINDS = ("gold", "empty", "wrong", "non_applying", "breaking", "half", "own_tests")


class _World:
    """One repository, one image, one instance for each kind of prediction."""

    def __init__(self, folder: Path, dockerfile: str) -> None:
        base = {"calc/__init__.py": "", "tests/__init__.py": "", **self.more_files()}
        base |= {f"calc/{name}.py": _BUGGY for name in KINDS}
        base |= {f"tests/test_{name}.py": _OLD_TESTS.format(name=name) for name in KINDS}
        future = {f"calc/{name}.py": _FIXED for name in KINDS}
        future |= {f"tests/test_{name}.py": _NEW_TESTS.format(name=name) for name in KINDS}
        self.repository = Repository(folder, past={"README.md": "Calc.\n"}, base=base, future=future)
        self.image = make_image(folder, dockerfile, repository=self.repository)
        self.rows = {name: self.row(name) for name in KINDS}

    def more_files(self) -> dict[str, str]:
        return {}

    def row(self, name: str) -> dict[str, Any]:
        raise NotImplementedError

    def gold(self, name: str) -> str:
        return self.repository.patch({f"calc/{name}.py": _FIXED})

    def tests(self, name: str) -> str:
        return self.repository.patch({f"tests/test_{name}.py": _NEW_TESTS.format(name=name)})

    def patch(self, name: str) -> str:
        """The answer that this row's name speaks of."""
        file = f"calc/{name}.py"
        weak = _NEW_TESTS.format(name=name).replace("== 9", "> 0")
        return {
            "empty": "",
            "wrong": self.repository.patch({file: _FIXED.replace("3 *", "4 *").replace("**2", "**3")}),
            "non_applying": self.gold(name).replace("number", "letter"),
            "breaking": self.repository.patch({file: _FIXED.replace("number + number", "number")}),
            "half": self.repository.patch({file: _HALF}),
            "own_tests": self.repository.patch({file: _FIXED, f"tests/test_{name}.py": weak}),
        }.get(name, self.gold(name))


_RUNNER = """\
    import importlib, os, sys

    for file in sys.argv[1].split(","):
        name = file.removeprefix("tests/").removesuffix(".py")
        tests = importlib.import_module("tests." + name)
        for test in sorted(vars(tests)):
            if test.startswith("test_"):
                try:
                    getattr(tests, test)()
                    word = "PASS"
                except AssertionError:
                    word = "FAIL"
                if os.environ.get("CALC_MODE") == "on and on":
                    print(word, file, "|", "calc", test.replace("_", " "))
"""
_PARSER = """\
import json, sys

words = {"PASS": "PASSED", "FAIL": "FAILED"}
lines = [line.rstrip("\\n").partition(" ") for line in open(sys.argv[1])]
tests = [{"name": rest, "status": words[word]} for word, _, rest in lines if word in words]
json.dump({"tests": tests}, open(sys.argv[3], "w"))
"""


class ProWorld(_World):
    """SWE-bench Pro: the repository in /app, the answer's commit in the image's git, scripts with each instance."""

    def __init__(self, folder: Path, base_image: str) -> None:
        super().__init__(
            folder,
            f"FROM {base_image}\nCOPY stages /stages\nRUN sh /stages/make.sh /stages /app && rm -rf /stages\n"
            'WORKDIR /app\nENTRYPOINT ["/bin/bash"]\n',
        )
        self.image_map = {f"jefzda/sweap-images:{row['dockerhub_tag']}": self.image for row in self.rows.values()}

    def more_files(self) -> dict[str, str]:
        return {"runner.py": _RUNNER}

    def row(self, name: str) -> dict[str, Any]:
        base, gold = self.repository.base_commit, self.repository.future_commit
        file = f"tests/test_{name}.py"
        lines = [
            f"git reset --hard {base}",
            "git clean -fd ",
            f"git checkout {base} ",
            f"git checkout {gold} -- {file}",
        ]
        return {
            "repo": "calc/calc",
            "instance_id": f"instance_calc__{name}-{gold}-vnan",
            "base_commit": base,
            "patch": self.gold(name),
            "test_patch": self.tests(name),
            "problem_statement": json.dumps(f"## {name}\nTwo functions are wrong."),
            "requirements": json.dumps("- triple\n- square"),
            "interface": "No new interfaces are introduced",
            "repo_language": "python",
            "fail_to_pass": str([f"{file} | calc test square", f"{file} | calc test triple"]),
            "pass_to_pass": str([f"{file} | calc test double"]),
            "issue_specificity": "['major_bug']",
            "issue_categories": "['math']",
            "before_repo_set_cmd": "\n".join(lines),
            "selected_test_files_to_run": json.dumps([file]),
            "dockerhub_tag": f"calc.calc-calc__{name}-{gold}"[:128],
            "run_script": '#!/bin/bash\ncd /app\npython runner.py "$1"\n',
            "parser": _PARSER,
            "dockerfiles": ["FROM scratch\nENV CALC_MODE on and on\n", "FROM x\nENV A=1 B=2\n"],
        }


class EvoWorld(_World):
    """SWE-EVO: a donor's image whose HEAD is not the base commit."""

    def __init__(self, folder: Path, base_image: str) -> None:
        super().__init__(
            folder,
            f"FROM {base_image}\nCOPY stages /stages\n"
            "RUN sh /stages/make.sh /stages /testbed && rm -rf /stages && git -C /testbed checkout --quiet v1\n"
            "WORKDIR /testbed\n",
        )

    def row(self, name: str) -> dict[str, Any]:
        file = f"tests/test_{name}.py"
        return {
            "repo": "psf/requests",
            "instance_id": f"calc__{name}_1.0_2.0",
            "base_commit": self.repository.base_commit,
            "patch": self.gold(name),
            "test_patch": self.tests(name),
            "problem_statement": "2.0\n---\n- triple and square are right now",
            "FAIL_TO_PASS": [f"{file}::test_triple", f"{file}::test_square"],
            "PASS_TO_PASS": [f"{file}::test_double"],
            "environment_setup_commit": self.repository.base_commit,
            "start_version": "1.0",
            "end_version": "2.0",
            "end_version_commit": self.repository.future_commit,
            "image": self.image,
            "instance_id_swe": "calc__calc-1",
            "bench": "swe_gym",
            "version": "1.0",
            "test_cmds": "pytest --continue-on-collection-errors -rA",
            "log_parser": "parse_log_pytest_options",
            "PRs": [{"pr_number": 1, "patch_without_test": self.gold(name)}],
        }


# Like pip's own: without a setup.py there is nothing to install, and with one the packages that it names are copied.
_PIP = """\
    #!/bin/sh
    test "$1 $2" = "install ." || exit 2
    test -f setup.py || { echo "ERROR: Directory '.' is not installable." >&2; exit 1; }
    for package in $(sed -n 's/.*packages=.\\(.*\\)..).*/\\1/p' setup.py | tr -d "'"); do
        cp -R "$package" /usr/lib/python3/dist-packages/
    done
"""
_SETUP = "from setuptools import setup\n\nsetup(name='agent_code', packages=['agent_code'])\n"


# They pass only in the way that the row's settings ask for.
_LEVEL_2_TESTS = """\
    import os

    from agent_code import triple


    def test_triple():
        assert triple(3) == 9


    def test_settings():
        assert [os.environ.get(name) for name in ("RUN_BY", "MODE", "SEED")] == ["uv", "a b", "2"]
"""
# Submissions of level 2: one that is packaged, and says so in the README; two whose package is never installed.
_LEVEL_2: dict[str, dict[str, str | None]] = {
    "level_2": {"setup.py": _SETUP, "README.md": "A package.\n"},
    "unpackaged": {},
    "wrong_package": {"setup.py": _SETUP.replace("['agent_code']", "['tools']"), "tools/__init__.py": "\n"},
}


class FeatureWorld(_World):
    """FeatureBench: the whole project in /root/my_repo; `patch` takes the feature out of it."""

    def __init__(self, folder: Path, base_image: str) -> None:
        super().__init__(
            folder,
            f"FROM {base_image}\nCOPY stages /stages\n"
            "RUN sh /stages/make.sh /stages /testbed && cd /testbed && git checkout --quiet future && rm -rf .git"
            " && cp -a /testbed /root/my_repo && cd /stages/base && chmod +x pip uv && cp pip uv /usr/local/bin/"
            " && rm -rf /stages\nWORKDIR /testbed\n",
        )
        self.rows |= {name: self._level_2(name) for name in _LEVEL_2}

    def more_files(self) -> dict[str, str]:
        return {
            "pip": _PIP,
            "uv": '    #!/bin/sh\n    test "$1" = run && shift && RUN_BY=uv exec "$@"\n',
            "tests/test_other.py": "def test_other():\n    import calc.breaking as it\n    assert it.double(1) == 2\n",
        }

    def row(self, name: str) -> dict[str, Any]:
        whole, file = Repository.__new__(Repository), f"tests/test_{name}.py"
        whole.base = self.repository.future
        tests = _NEW_TESTS.format(name=name)
        return {
            "instance_id": f"calc__calc.{self.repository.base_commit[:8]}.test_{name}.12345678.lv1",
            "patch": whole.patch({f"calc/{name}.py": _BUGGY}),
            "test_patch": whole.patch({file: None}).replace("\n-\n", "\n-\n"),
            "FAIL_TO_PASS": [file],
            "PASS_TO_PASS": ["tests/test_other.py"],
            "image_name": self.image,
            "repo": "calc/calc",
            "base_commit": self.repository.base_commit,
            "problem_statement": f"## Task\nWrite triple and square of {name}.",
            "repo_settings": json.dumps({"test_cmd": "pytest -rA --color=no", "timeout_run": 60, "timeout_one": 20}),
            "marks": len(tests),
        }

    def _level_2(self, name: str) -> dict[str, Any]:
        file = "tests/test_gold.py"
        whole = Repository.__new__(Repository)
        whole.base = self.repository.future
        return self.rows["gold"] | {
            "instance_id": f"calc__calc.12345678.test_{name}.12345678.lv2",
            "patch": "",
            "test_patch": whole.patch({file: _LEVEL_2_TESTS}),
            "repo_settings": json.dumps(
                {
                    "test_cmd": "pytest -rA --color=no",
                    "use_uv": True,
                    "docker_specs": {"custom_docker_args": ["-e MODE=a b", "-ee SEED=$((1 + 1))"]},
                }
            ),
        }

    def patch(self, name: str) -> str:
        if name in _LEVEL_2:
            bare = Repository.__new__(Repository)
            bare.base = {"README.md": "put all codes in this folder\n"}
            return bare.patch(
                {"agent_code/__init__.py": "def triple(number):\n    return 3 * number\n", **_LEVEL_2[name]}
            )
        if name == "own_tests":  # the hidden test is not there for the agent, which may write one of its own
            weak = "def test_triple():\n    pass\n"
            gold = self.repository.patch({f"calc/{name}.py": _FIXED})
            bare = Repository.__new__(Repository)
            bare.base = {}
            return gold + bare.patch({f"tests/test_{name}.py": weak})
        return super().patch(name)
