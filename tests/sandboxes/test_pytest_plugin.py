import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

OPTIONS = ("-p", "no:cacheprovider", "-p", "no:asyncio")


def test_other_projects_get_a_sandbox_that_is_new_for_every_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, json
        homes = []

        def test_first(proctor_sandbox):
            homes.append(proctor_sandbox.home)
            assert proctor_sandbox.preset == "hooks"
            assert not (proctor_sandbox.home / "left").exists()
            (proctor_sandbox.home / "left").touch()
            (proctor_sandbox.home / "roles" / "default.yaml").write_text("role_name: default")
            proctor_sandbox.run(["h2", "run", "worker", "--role", "default", "--detach"], check=True)
            status = json.loads(proctor_sandbox.run(["h2", "status", "worker"], check=True).stdout)
            open("pid", "w").write(proctor_sandbox.run(["pgrep", "-f", f"{homes[0]}/sessions/worker"]).stdout)

        def test_second(proctor_sandbox):
            assert proctor_sandbox.home == homes[0]
            assert not (proctor_sandbox.home / "left").exists()
            assert not os.path.exists(f"/proc/{open('pid').read().split()[0]}/environ") or _zombie()
            assert "cannot connect" in proctor_sandbox.run(["h2", "status", "worker"]).stderr
            (proctor_sandbox.home / "left").touch()

        def _zombie():
            return "State:\\tZ" in open(f"/proc/{open('pid').read().split()[0]}/status").read()

        def test_no_sandbox_needed():
            open("home", "w").write(str(homes[0]))
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS)
    result.assert_outcomes(passed=3)
    assert not Path((pytester.path / "home").read_text()).exists(), "it is destroyed at the end"


def test_a_project_brings_its_own_preset_with_a_permission_script(pytester: pytest.Pytester, account: Path) -> None:
    preset = pytester.mkdir("strict")
    (preset / "preset.toml").write_text('extends = "hooks"')
    (preset / "permission.sh").write_text("#!/bin/sh\necho denied by $H2_DIR\n")
    (preset / "permission.sh").chmod(0o755)
    settings = preset / "claude-config" / "default" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        '{"hooks": {"PermissionRequest": [{"matcher": "", "hooks": '
        '[{"type": "command", "command": "$H2_DIR/permission.sh"}]}]}}'
    )
    pytester.makeconftest(
        f"""
        from pathlib import Path
        import pytest

        @pytest.fixture(scope="session")
        def proctor_preset():
            return Path(__file__).parent / "strict"

        @pytest.fixture(scope="session")
        def proctor_auth_from():
            return Path({str(account)!r})
        """
    )
    pytester.makepyfile(
        """
        import json, pytest

        @pytest.mark.parametrize("turn", range(2))
        def test_the_script_is_there(proctor_sandbox, turn):
            assert proctor_sandbox.preset == "strict"
            config = proctor_sandbox.home / "claude-config" / "default"
            hooks = json.loads((config / "settings.json").read_text())["hooks"]
            command = hooks["PermissionRequest"][0]["hooks"][0]["command"]
            answer = proctor_sandbox.run(["sh", "-c", command]).stdout
            assert answer == f"denied by {proctor_sandbox.home}\\n"
            assert (config / ".credentials.json").read_text().startswith('{"claudeAiOauth"')
            (proctor_sandbox.home / "permission.sh").unlink()
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=2)


def test_a_preset_that_is_none_is_one_sentence(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def proctor_preset():
            return "nope"
        """
    )
    pytester.makepyfile("def test_it(proctor_sandbox): pass")
    result = pytester.runpytest_subprocess(*OPTIONS)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*UsageError: no preset is called 'nope'*"])


def test_the_plugin_costs_other_projects_nothing_until_it_is_used() -> None:
    code = "import sys, pytest; before = set(sys.modules); import proctor.sandboxes.pytest_plugin; "
    code += "print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) == {"proctor", "proctor.core", "proctor.sandboxes", "proctor.sandboxes.pytest_plugin"}
