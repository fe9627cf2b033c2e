"""Data sets of benchmarks: brought here from their official places or from a local copy, and kept as they came."""

from proctor.benchmarks.data.dataset_store import store_dataset, stored_dataset, stored_splits
from proctor.benchmarks.data.download import download_from_git, download_from_hub, repository_url
from proctor.benchmarks.data.published import published_results
from proctor.benchmarks.data.rows import read_rows

__all__ = [
    "download_from_git",
    "download_from_hub",
    "published_results",
    "read_rows",
    "repository_url",
    "store_dataset",
    "stored_dataset",
    "stored_splits",
]
