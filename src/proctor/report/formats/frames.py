"""A run as tables for other programs: a folder with one file per table, as CSV or Parquet."""

from pathlib import Path
from typing import Final, get_args

from proctor.core.errors import UsageError
from proctor.report.tables import records_csv
from proctor.results import RunStore
from proctor.results.formats import ExportOptions, ExportResult, ExternalRun, Format, ImportOptions
from proctor.results.frames import FrameKind, frame_rows, make_frame, row_type

_KINDS: Final[tuple[FrameKind, ...]] = get_args(FrameKind)


class _TableFormat(Format):
    """A folder with trials, tests and model calls."""

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        """A run cannot be made from its tables."""
        raise UsageError("tables are exported only", fix="import a format that has whole runs")


class CsvFormat(_TableFormat):
    """One CSV file per table."""

    about = "tables: one row per trial, test and model call, as CSV files"

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Write the tables."""
        target.mkdir()
        for kind in _KINDS:
            text = records_csv(row_type(kind), list(frame_rows(run, kind)))
            (target / f"{kind}.csv").write_text(text, encoding="utf-8")
        return ExportResult(files=len(_KINDS))


class ParquetFormat(_TableFormat):
    """One Parquet file per table."""

    about = "tables: the same as Parquet files (needs the extra `frames`)"

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        """Write the tables."""
        frames = {kind: make_frame([run], kind) for kind in _KINDS}
        target.mkdir()
        for kind, frame in frames.items():
            frame.write_parquet(target / f"{kind}.parquet")
        return ExportResult(files=len(_KINDS))
