"""Sweeps: several configurations of one benchmark, planned, run and compared together."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from proctor.analysis import Observation
from proctor.analysis.sweep import SweepOutcome, sweep_outcome
from proctor.core.run import RunConfig
from proctor.core.sweep import Sweep, SweepRun
from proctor.results import SweepStore
from proctor.runner.models import parse_model
from proctor.runner.request import cost_bound
from proctor.runner.sweep_file import SweepFile


def make_sweep(file: SweepFile, benchmark: str, configs: Mapping[str, RunConfig]) -> Sweep:
    """The sweep of these configurations, by label; it has no id yet."""
    return Sweep(
        sweep_id="",
        name=file.name,
        benchmark=benchmark,
        file=file.text,
        runs=tuple(SweepRun(label=label, config=config) for label, config in configs.items()),
        reference=file.reference,
        rule=file.rule,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def sweep_cost_bound(configs: Sequence[RunConfig]) -> float | None:
    """The most that runs with one budget can cost together; None when nothing bounds it.

    A run without a model costs nothing.
    """
    paying = [config for config in configs if config.model is not None]
    shared = [config.max_cost for config in paying if config.max_cost is not None]
    own = [cost_bound(config) for config in paying]
    each = [bound for bound in own if bound is not None]
    total = sum(each) if len(each) == len(own) else None
    return min([*shared, *([] if total is None else [total])], default=None)


def uses_paid_model(configs: Sequence[RunConfig]) -> bool:
    """Whether a provider charges for a model: scripts and recordings cost nothing."""
    models = [config.model for config in configs if config.model is not None]
    return any(parse_model(model).kind == "provider" for model in models)


def stored_sweep_outcome(store: SweepStore) -> SweepOutcome:
    """What a sweep has shown, from what is stored."""
    return sweep_outcome(store.sweep(), {label: list(run.results_as(Observation)) for label, run in store.runs()})
