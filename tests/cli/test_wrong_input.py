"""Wrong input of every command: one clear sentence, the documented exit code, and nothing half-written."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proctor.cli.dispatch import dispatch

ORACLE = "bench run core-mini --agent oracle"
# By exit code: what is typed, and what the sentence must say.
WRONG = {
    2: {
        "bnch run": "did you mean `proctor bench`?",
        "bench runn core": "did you mean 'run'?",
        "bench run core-mini --modle x": "'--model'",
        "bench run coree --agent oracle": "did you mean 'core'?",
        "bench run core --agent orcale": "did you mean 'oracle'?",
        "bench run core-mini": "needs a model",
        "bench run core-mini --model sonet": "did you mean 'sonnet'?",
        "bench run core-mini --model sonnet": "there is no key for the model",
        "bench run core-mini --model script:missing": "cannot read the script: No such file or directory",
        "bench run core-mini --model script:binary": "it is not UTF-8 text",
        "bench run core-mini --model replay:nope": "there is no run 'nope'",
        "bench run core-mini --mode h3": "--mode must be one of baseline, h2",
        "bench run core-mini --mode h2 --agent codex": "--mode h2 is not for the agent codex",
        "bench run core-mini --agent command": "needs a command",
        "bench run core-mini --agent codex --model sonnet --effort silly": "has no effort 'silly'",
        "bench run core-mini --suite core --agent oracle": "BENCH or --suite, not both",
        f"{ORACLE} --task py_cache_001": "did you mean 'py_cache_0001'?",
        f"{ORACLE} --task-tag bugfixx": "did you mean 'bugfix'?",
        f"{ORACLE} --category language=phyton": "did you mean 'language=python'?",
        f"{ORACLE} --filter zzz": "no task is chosen",
        f"{ORACLE} --limit -1": "--limit must be a whole number",
        f"{ORACLE} --trials 0": "--trials must be a whole number from 1",
        f"{ORACLE} --max-cost nan": "--max-cost must be a number above 0",
        f"{ORACLE} --timeout 1e400": "--timeout must be a number above 0",
        f"{ORACLE} --memory abc": "--memory must be a size",
        f"{ORACLE} --after 2020-13-01": "--after must be a day",
        f"{ORACLE} --preset nope": "no preset is called 'nope'",
        f"{ORACLE} --runner dokcer": "did you mean 'docker'?",
        f"{ORACLE} --gpus 1": "--gpus is for environments in containers",
        f"{ORACLE} --var a=b": "--var is for pods",
        f"{ORACLE} --address first:6379": "--address is for clusters",
        f"{ORACLE} --agent-command true": "--agent-command is for --agent command",
        f"{ORACLE} --prices folder": "cannot read the price table: Is a directory",
        f"{ORACLE} --image-map text": "image map",
        f"{ORACLE} --notify nosuchprogram": "there is no program 'nosuchprogram'",
        f"{ORACLE} --name a/b": "--name must not have a slash",
        f"{ORACLE} --results text": "is a file",
        f"{ORACLE} --provider nope": "must be of the form NAME=VALUE",
        "bench resume nope": "there is no run 'nope'",
        "bench show nope": "there is no run 'nope'",
        "bench watch nope": "there is no run 'nope'",
        "bench report nope": "there are no runs of 'nope'",
        "bench compare a": "a comparison needs two runs",
        "bench breakdown nope": "there is no run 'nope'",
        "bench list --split x": "give BENCH or --suite too",
        "bench list swe_bench_verified": "bench fetch swe_bench_verified",
        "bench fetch nope": "is not a benchmark whose data is downloaded",
        "bench fetch swe_bench_verified --from missing": "there is no such path",
        "bench fetch harbor --from folder --split ../x": "is no name for a split",
        "bench export core-mini --format harbor-tasks --image -x": "is not the name of an image",
        "bench eval core-mini": "--predictions FILE or --oracle, not both",
        "bench eval core-mini --predictions binary": "not UTF-8 text",
        "bench eval core-mini --predictions empty": "it has no predictions",
        "bench eval core-mini --oracle --artifact-dir text": "it is a file, or below one",
        "bench eval core-mini --oracle --out /proc/x": "cannot write the report",
        "bench validate core-mini --write-exclusions /proc/x": "cannot write the exclusion list",
        "bench export nope --format csv": "there is no run 'nope'",
        "bench export nope --format nope": "there is no format 'nope'",
        "bench import text --format nope": "there is no format 'nope'",
        "bench score binary": "this is not JSON",
        "bench sweep missing": "cannot read the sweep",
        "bench sweep text": "the sweep is not valid TOML",
        "suite new /proc/x": "no folder can be made here",
        "suite mine folder": "there is no git repository",
        "runs rename nope x": "there is no run 'nope'",
        "runs delete nope --yes": "there is no run 'nope'",
        "sandbox create ../x": "is not a name for a sandbox",
        "sandbox create a --preset nope": "no preset is called 'nope'",
        "sandbox reset nope": "there is no sandbox nope",
        "view --bundle /proc/x": "no folder can be made here",
        "plugin new agent class": "cannot be a plugin's name",
        "schema nope": "no schema is called 'nope'",
        "cluster fetch core --address nope": "is no cluster's address",
    },
    12: {
        "bench run core-mini --mode h2 --model sonnet": "h2 is not installed here",
    },
    20: {
        "bench run --suite missing.json --agent oracle": "there is no such suite",
        "bench run --suite binary --agent oracle": "not JSON",
        "bench run core-mini --model script:text": "the script",
        f"{ORACLE} --prices binary.json": "price table",
        "bench import folder --format harbor": "this is not a job folder",
        "suite show text": "not JSON",
    },
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of the wrong kinds, on a machine without keys, h2 and sandboxes."""
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    (here / "empty").touch()
    (here / "text").write_text("= no value\n")
    (here / "binary").write_bytes(bytes(range(256)))
    (here / "binary.json").write_text('{"models": {"x": "y"}}')
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "PROCTOR_RESULTS", "PROCTOR_PRICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("H2_BIN", "/nowhere/h2")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PROCTOR_SANDBOXES", str(tmp_path / "sandboxes"))
    monkeypatch.chdir(here)
    return here


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [pytest.param(code, line, said, id=line) for code, lines in WRONG.items() for line, said in lines.items()],
)
def test_wrong_input_is_one_sentence_with_its_exit_code_and_leaves_nothing(
    code: int, line: str, said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(place.rglob("*"))
    assert dispatch(shlex.split(line)) == code
    shown = capsys.readouterr()
    *details, sentence = shown.err.splitlines()
    assert sentence.startswith("proctor: ")
    assert said in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert not details or code == 20
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (f"{ORACLE} --results kept/results", 12, "results cannot be stored here: Permission denied"),
        ("bench eval core-mini --oracle --artifact-dir kept/logs", 2, "test results cannot be stored here"),
        ("bench eval core-mini --oracle --out kept/report.json", 2, "cannot write the report: Permission denied"),
        ("suite new kept/mine", 2, "no folder can be made here: Permission denied"),
        ("init kept/mine", 2, "no folder can be made here: Permission denied"),
        (f"{ORACLE} --prices secret", 2, "cannot read the price table: Permission denied"),
        ("bench run --suite secret --agent oracle", 20, "cannot read it: Permission denied"),
    ],
)
def test_what_may_not_be_written_or_read_is_one_sentence(line: str, code: int, said: str, place: Path) -> None:
    words = [sys.executable, "-m", "proctor", *shlex.split(line)]
    if os.geteuid() == 0:  # to whom nothing is forbidden
        if shutil.which("setpriv") is None:
            pytest.skip("there is no setpriv on this machine")
        words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--inh-caps=-all", *words]
    (place / "kept").mkdir(mode=0o555)
    (place / "secret").touch(mode=0o000)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not any((place / "kept").iterdir())
