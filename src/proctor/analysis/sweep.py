"""The outcome of a sweep: every configuration compared with the reference, and the decision of the rule."""

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
        comparison: with the reference, corrected for the number of comparisons; None for the reference itself.
        decision: of the rule; None without a rule, and while trials are missing.
    """

    label: str
    run_id: str
    row: RunRow
    comparison: Comparison | None = None
    decision: GateDecision | None = None


class SweepOutcome(Record):
    """The outcome of a sweep so far.

    Attributes:
        reference: the label of the configuration that the others are compared with.
        missing: trials that are not recorded yet. While there are any, nothing is decided: a rule that is checked
            again and again will at some time hold by chance.
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
    schema_version: Literal["proctor.sweep_outcome@2"] = "proctor.sweep_outcome@2"


def sweep_outcome(sweep: Sweep, trials: Mapping[str, Sequence[Observation]]) -> SweepOutcome:
    """Compare every configuration's trials, by label, with the reference's."""
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
        return f"Nothing is decided: {missing} trials are missing."
    if rule is None:
        return "No rule was given beforehand, so nothing is decided."
    if not others:
        return "There is one configuration only, and nothing to compare it with."
    if not chosen:
        return f"No configuration meets the rule ({rule.text}): stay with {reference}."
    which = " and ".join([", ".join(chosen[:-1]), chosen[-1]]) if chosen[1:] else chosen[0]
    return f"{which} meet{'s' if len(chosen) == 1 else ''} the rule ({rule.text}) against {reference}."
