import zipfile
from pathlib import Path

import pytest

from proctor.benchmarks.plugins import published_rows, registered_source

SOURCE = """
from proctor import BenchmarkSource, PublishedResult

class Source(BenchmarkSource):
    def open(self, split):
        raise NotImplementedError

    def published(self):
        return [PublishedResult(benchmark="b", agent="a", model="theirs", date="2026-01", source="https://example.org")]

SOURCE = Source()
"""
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"


def package(name: str, points: str) -> dict[str, str]:
    return {
        f"{name}.py": SOURCE,
        f"{name}-1.0.dist-info/METADATA": METADATA.format(name=name),
        f"{name}-1.0.dist-info/entry_points.txt": points,
    }


def test_a_registered_benchmark_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in package("plain_bench", "[proctor.benchmarks]\nplain-bench = plain_bench:SOURCE\n").items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert registered_source("plain-bench") is None
    monkeypatch.syspath_prepend(tmp_path)
    assert registered_source("plain-bench") is not None
    assert [one.model for one in published_rows("plain-bench")] == ["theirs"]


def test_a_benchmark_in_a_zipped_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        for path, text in package("packed_bench", "[proctor.benchmarks]\npacked=packed_bench:SOURCE\n").items():
            archive.writestr(path, text)
    monkeypatch.syspath_prepend(tmp_path / "packed.zip")
    assert [one.model for one in published_rows("packed")] == ["theirs"]


def test_the_name_of_another_package_is_not_a_benchmark() -> None:
    assert registered_source("bubblewrap") is None
    assert registered_source("local") is None  # an environment of ours
    assert published_rows("core") == ()
