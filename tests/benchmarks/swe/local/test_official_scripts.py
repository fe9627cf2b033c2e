"""Official scripts, for environments without conda and network."""

import shutil
import subprocess

from proctor.benchmarks.swe.local.official_scripts import adapt_eval_script, image_setup, installs_project

EVAL = """\
#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
source /opt/miniconda3/bin/activate
conda activate testbed
python -m pip install -e .[test] --verbose
pip install 'pandas<2.0'
git apply -v - <<'EOF_114329324912'
+conda activate testbed
+python -m pip install -e .
+source /opt/miniconda3/bin/activate

EOF_114329324912
: '>>>>> Start Test Output'
/opt/miniconda3/envs/testbed/bin/pytest -rA tests/test_x.py
: '>>>>> End Test Output'
"""
DOCKERFILE = """\
RUN <<EOF_1
git clone x /testbed
cd /testbed
echo "Current environment: $CONDA_DEFAULT_ENV"
cd /testbed
apt-get update && apt-get install -y graphviz libqhull-dev pkg-config
DEBIAN_FRONTEND=noninteractive apt-get install -y --allow-downgrades tzdata=2022a-0ubuntu1 || true
echo 'en_US UTF-8' > /etc/locale.gen
sed -i 's/pytest/pytest -rA/' tox.ini
python -m pip install -e .[test]

# Configure git
git config --global user.name SWE-bench
EOF_1
"""


def test_conda_gives_way_and_nothing_is_fetched() -> None:
    lines = adapt_eval_script(EVAL).split("\n")
    assert lines[:4] == [
        "#!/bin/bash",
        "set -uxo pipefail",
        "export VIRTUAL_ENV=/venv PATH=/venv/bin:$PATH",
        "cd /testbed",
    ]
    install = "python -m pip install --no-deps --no-build-isolation -e .[test] --verbose"
    assert lines[4] == f"PYTHONPATH=/venv/proctor-build {install}"
    assert lines[5].startswith(": ")
    assert "pandas" in lines[5]
    assert "/venv/bin/pytest -rA tests/test_x.py" in lines


def test_the_test_patch_is_not_touched() -> None:
    patch = EVAL[EVAL.index("git apply") : EVAL.index(": '>>>>> Start")]
    assert patch in adapt_eval_script(EVAL)


def test_a_script_for_an_environment_is_one_that_bash_can_read() -> None:
    bash = shutil.which("bash") or "bash"
    subprocess.run([bash, "-n"], input=adapt_eval_script(EVAL).encode(), check=True)


def test_the_project_is_told_from_other_packages() -> None:
    assert installs_project("python -m pip install -e .")
    assert installs_project("pip install .[dev]")
    assert not installs_project("pip install 'pandas<2.0'")
    assert not installs_project("pip install -r requirements.txt")
    assert not installs_project("pip install 'unclosed")


def test_the_official_set_up_is_read_from_the_dockerfile() -> None:
    found = image_setup(DOCKERFILE, EVAL)
    assert found.lines == ("sed -i 's/pytest/pytest -rA/' tox.ini", "python -m pip install -e .[test]")
    assert found.system_packages == ("graphviz", "libqhull-dev")


def test_without_a_dockerfile_the_project_is_installed_as_the_eval_script_does() -> None:
    found = image_setup("", EVAL)
    assert found.lines == ("python -m pip install -e .[test] --verbose", "pip install 'pandas<2.0'")
