"""Families as they lie in a folder, and what a machine is missing for them."""

from pathlib import Path

import pytest

from proctor.benchmarks.re_bench.benchmark import ReBench
from proctor.benchmarks.re_bench.families import load_families
from proctor.benchmarks.re_bench.source import DEMO, ReBenchSource
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentProvider, Network
from proctor.core.errors import InfrastructureError, InvalidData, UsageError
from proctor.environments import local_unavailable_reason, provider
from proctor.runner.request import current_machine

# In the shape of METR's: it needs what no machine of ours has, and modules that are not installed.
KERNEL = """
import torch
from metr.task_protected_scoring import setup_scoring

class TaskFamily:
    standard_version = "0.2.3"
    required_environment_variables = ["A_KEY_THAT_NOBODY_HAS"]

    @staticmethod
    def get_tasks():
        return {"main": {"strip": False}, "hidden_score": {"strip": True}}

    @staticmethod
    def get_permissions(t):
        return ["full_internet"] if t["strip"] else []

    @staticmethod
    def get_instructions(t):
        return "Make the kernel faster."

    @staticmethod
    def start(t):
        setup_scoring()

    @staticmethod
    def intermediate_score(t):
        return torch.no()
"""
MANIFEST = """
version: 0.2.5
meta: {canary: none}
tasks:
  main:
    resources: {gpu: {count_range: [1, 1], model: h100}, cpus: 4096, memory_gb: 1000000}
    scoring: {visible_to_agent: true, instructions: "Ask often."}
"""


@pytest.fixture
def metr(tmp_path: Path) -> Path:
    root = tmp_path / "RE-Bench"
    folder = root / "ai_rd_triton_cumsum"
    folder.mkdir(parents=True)
    (folder / "ai_rd_triton_cumsum.py").write_text(KERNEL)
    (folder / "manifest.yaml").write_text(MANIFEST)
    (root / "README.md").write_text("not a family\n")
    return root


@pytest.fixture
async def environments() -> EnvironmentProvider:
    reason = await local_unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    return provider("local")


async def test_a_family_gives_its_instructions_without_what_it_imports(
    metr: Path, environments: EnvironmentProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said: list[str] = []
    got = await ReBenchSource().fetch(None, metr, said.append)
    assert (got.benchmark, got.split, got.tasks, got.origin) == ("re_bench", "main", 1, str(metr))
    main, hidden = sorted(ReBenchSource().open(None).tasks(), key=lambda task: task.id, reverse=True)
    assert main.id == "ai_rd_triton_cumsum/main"
    assert main.public.instruction.startswith("Make the kernel faster.\nAsk often.\n")
    assert "run `/score/score`" in main.public.instruction
    assert main.categories["requirements"] == "1xh100, 4096 cpu, 1e+06 GB, A_KEY_THAT_NOBODY_HAS"
    assert (main.public.network, hidden.public.network) == (Network.MODEL, Network.OPEN)
    assert main.public.limits.wall_seconds == 8 * 3600


async def test_missing_requirements_are_reported_before_anything_is_spent(
    metr: Path, environments: EnvironmentProvider, tmp_path: Path
) -> None:
    families, _ = load_families(metr, trusted=True)
    source = ReBench("re_bench", families, source=str(metr)).for_provider(environments)
    task = next(task for task in source.tasks() if task.id.endswith("/main"))
    context = GradingContext(provider=environments, folder=tmp_path / "grading", options=GradeOptions())
    assert "1 GPU (h100)" in (source.missing_requirement(task, current_machine(), "local") or "")
    for trying in (source.prepare(task, tmp_path), source.validate(task, context)):
        with pytest.raises(InfrastructureError) as raised:
            await trying
        assert raised.value.cause is Cause.NOT_RUNNABLE_HERE
        for need in ("1 GPU (h100)", "4096 processors", "1e+06 GB of memory", "A_KEY_THAT_NOBODY_HAS"):
            assert need in str(raised.value)


def test_a_family_whose_scores_have_no_scale_is_named_and_not_used(metr: Path) -> None:
    (metr / "ai_rd_triton_cumsum").rename(metr / "stranger")
    (metr / "stranger/ai_rd_triton_cumsum.py").rename(metr / "stranger/stranger.py")
    families, unusable = load_families(metr, trusted=True)
    source = ReBench("re_bench", families, unusable, source="")
    assert list(source.tasks()) == []
    assert [bad.task_id for bad in source.invalid_tasks()] == ["stranger/main", "stranger/hidden_score"]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("manifest.yaml", "tasks: {main: {resources: {cpus: many}}}", "this is not a manifest"),
        ("manifest.yaml", "tasks: [", "is not YAML that can be read"),
        ("ai_rd_triton_cumsum.py", "class TaskFamily: pass", "does not say what its tasks are"),
        ("ai_rd_triton_cumsum.py", "import sys; sys.exit(0)", "does not say what its tasks are"),
    ],
)
def test_a_broken_family_is_named_with_the_reason(metr: Path, file: str, text: str, said: str) -> None:
    (metr / "ai_rd_triton_cumsum" / file).write_text(text)
    families, unusable = load_families(metr, trusted=True)
    assert families == []
    assert said in unusable[0].problems[0]


async def test_a_family_that_cannot_speak_is_fetched_and_named_and_its_code_is_not_run_again(
    metr: Path, environments: EnvironmentProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trace = tmp_path / "ran"
    (metr / "ai_rd_triton_cumsum/ai_rd_triton_cumsum.py").write_text(f"open({str(trace)!r}, 'w')\n")
    await ReBenchSource().fetch(None, metr, lambda _: None)
    opened = ReBenchSource().open(None)
    assert list(opened.tasks()) == []
    assert "does not say what its tasks are" in opened.invalid_tasks()[0].problems[0]
    assert not trace.exists()


async def test_a_folder_without_families_is_not_the_data(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidData, match="no task family"):
        await ReBenchSource().fetch(None, tmp_path / "empty", lambda _: None)
    with pytest.raises(UsageError, match="comes with Proctor"):
        await DEMO.fetch(None, None, lambda _: None)
