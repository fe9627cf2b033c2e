"""A program of Python in an environment that shows neither its virtual environment nor its interpreter."""

import venv
from pathlib import Path

import pytest

import proctor
from proctor.agents.program_agent import ProgramReader, ProgramReport
from proctor.agents.python_agent import PythonAgent, describe_installation, holds_proctor
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.errors import InfrastructureError
from program_lab import program_run, script


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip puts in the folder of programs of a virtual environment."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "toy_program.py").touch()
    (packages / "toy-1.5.dist-info").mkdir()
    (packages / "toy-1.5.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.5\n")
    script = folder / "bin" / "toy"
    script.touch(0o755)
    return script


class LastLine(ProgramReader):
    text = ""

    def handle_line(self, line: bytes) -> None:
        self.text = line.decode()

    def report(self) -> ProgramReport:
        return ProgramReport(finished=True, final_text=self.text)


class Toy(PythonAgent):
    name = "toy"
    title = "Toy"
    command = "toy"
    command_variable = "TOY_BIN"
    python_package = "toy"
    remedy = "none"
    foreign_variables = ("PYTHON*",)
    launcher = """
import subprocess, toy_program
task = sys.stdin.read()
inherited = subprocess.run(["env"], capture_output=True, text=True).stdout.splitlines()
libraries = [line for line in inherited if line.startswith(("LD_LIBRARY_PATH=", "PYTHON"))]
print(toy_program.__file__, sys.argv[1:], task, libraries, sys.prefix)
"""

    def program_arguments(self, request: AgentRequest) -> list[str]:
        return ["--model", request.model or ""]

    reader = LastLine


@pytest.mark.parametrize("libraries", ["", "/opt/own/lib"])
async def test_its_parts_are_mounted_and_put_together(libraries: str, command: Path, tmp_path: Path) -> None:
    variables = {"PYTHONPATH": "/workspace", "PYTHONHOME": "/nowhere"}
    variables |= {"LD_LIBRARY_PATH": libraries} if libraries else {}
    # Files are no patterns of variables.
    files = {"PYTHONIC": "", "toy_program.py": "raise SystemExit('taken from the repository')"}
    model = script({"text": "unused"})
    async with program_run(Toy, model, tmp_path, program=command, files=files, variables=variables) as run:
        outcome = await run.work("m")
        seen = [f"LD_LIBRARY_PATH={libraries}"] if libraries else []
        assert outcome.final_text == (
            f"/proctor/toy/toy_program.py ['--model', 'm'] Make a file out.txt. {seen} /proctor/toy-python"
        ), outcome
        assert run.agent.versions() == {"toy": "1.5"}


def test_a_release_whose_internals_are_not_known_is_refused(command: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Toy(AgentSetup(program=str(command)))
    monkeypatch.setattr(Toy, "known_release", "1")
    assert agent.versions() == {"toy": "1.5"}
    monkeypatch.setattr(Toy, "known_release", "1.4")
    with pytest.raises(InfrastructureError, match=r"this is Toy 1\.5, and only 1\.4 can be kept"):
        agent.versions()


def test_a_command_without_its_python_is_refused(command: Path, tmp_path: Path) -> None:
    lone = tmp_path / "mini"
    lone.touch()
    with pytest.raises(InfrastructureError, match="no Python beside"):
        describe_installation(lone, "mini-swe-agent")
    with pytest.raises(InfrastructureError, match="does not have it"):
        describe_installation(command, "no-such-package")


def test_a_folder_with_proctor_in_it_is_known(tmp_path: Path) -> None:
    assert holds_proctor(Path(proctor.__path__[0]).parent)
    assert not holds_proctor(tmp_path)
