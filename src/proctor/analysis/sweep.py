"""What a sweep has shown: every configuration against the baseline, and what the rule, made beforehand, says to it."""

from collections.abc import Mapping, Sequence
from typing import Literal

from proctor.analysis.gate import GateDecision, GateRule, decide, parse_rule
from proctor.analysis.observation import Observation
from proctor.analysis.paired import Comparison, adjust_p_values, compare
from proctor.analysis.runs import RunRow, run_row
from proctor.core.record import Record
from proctor.core.sweep import Sweep


class SweepRunOutcome(Record):
    """One configuration of a sweep.

    Attributes:
        comparison: against the baseline, corrected for there being several; None for the baseline itself.
        decision: what the rule says to it; None without a rule, and as long as answers are missing.
    """

    label: str
    run_id: str
    row: RunRow
    comparison: Comparison | None = None
    decision: GateDecision | None = None


class SweepOutcome(Record):
    """What a sweep has shown so far.

    Attributes:
        missing: answers that are wanted and not recorded. With any, nothing is decided: whoever looks again and again
            until a rule holds will see it hold by chance.
        chosen: the labels of the configurations that meet the rule.
    """

    sweep_id: str
    name: str
    benchmark: str
    reference: str
    rule: str | None
    missing: int
    runs: tuple[SweepRunOutcome, ...]
    chosen: tuple[str, ...]
    sentence: str
    schema_version: Literal["proctor.sweep_outcome@1"] = "proctor.sweep_outcome@1"


def sweep_outcome(sweep: Sweep, trials: Mapping[str, Sequence[Observation]]) -> SweepOutcome:
    """Hold every configuration's answers, by label, against the baseline's. Pure, and the same whenever it is asked."""
    rule = None if sweep.rule is None else parse_rule(sweep.rule)
    rows = {run.label: run_row(run.config, trials[run.label]) for run in sweep.runs}
    missing = sum(row.missing for row in rows.values())
    others = [label for label in rows if label != sweep.reference]
    compared = adjust_p_values(
        [compare(trials[sweep.reference], trials[label], names=(sweep.reference, label)) for label in others]
    )
    comparisons = dict(zip(others, compared, strict=True))
    decisions = {label: decide(rule, comparisons[label]) for label in others} if rule and not missing else {}
    chosen = tuple(label for label, decision in decisions.items() if decision.passed)
    return SweepOutcome(
        sweep_id=sweep.sweep_id,
        name=sweep.name,
        benchmark=sweep.benchmark,
        reference=sweep.reference,
        rule=rule.text if rule else None,
        missing=missing,
        runs=tuple(
            SweepRunOutcome(
                label=run.label,
                run_id=run.config.run_id,
                row=rows[run.label],
                comparison=comparisons.get(run.label),
                decision=decisions.get(run.label),
            )
            for run in sweep.runs
        ),
        chosen=chosen,
        sentence=_sentence(rule, chosen, reference=sweep.reference, others=len(others), missing=missing),
    )


def _sentence(rule: GateRule | None, chosen: Sequence[str], *, reference: str, others: int, missing: int) -> str:
    if missing:
        return f"Nothing is decided: {missing} answers are missing."
    if rule is None:
        return "No rule was given beforehand, so nothing is decided."
    if not others:
        return "There is one configuration only, and nothing to hold it against."
    if not chosen:
        return f"No configuration meets the rule ({rule.text}): stay with {reference}."
    which = " and ".join(chosen) if len(chosen) < 3 else f"{', '.join(chosen[:-1])} and {chosen[-1]}"  # noqa: PLR2004
    return f"{which} meet{'s' if len(chosen) == 1 else ''} the rule ({rule.text}) against {reference}."
