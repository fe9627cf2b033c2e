"""A rule that a comparison must meet, for use in a pipeline or a sweep.

    rule    = clause {"," clause}                                   all of them must hold
    clause  = "better" | "not worse"                                what the paired test can show
            | "better by" share | "not worse by" share              where the interval of the difference in rate ends
            | measure operator bound                                such as  rate >= 30%   cost ratio <= 1.2   p < 0.01

"not worse" holds when the data show no loss, which few tasks seldom do; "not worse by 2%" holds when they rule out a
loss of two points, which takes many tasks. A measure that is unknown, such as a cost without a price, meets no bound.
"""

import operator
import re
from collections.abc import Callable
from typing import Final

from proctor.analysis.paired import Comparison
from proctor.core.errors import UsageError
from proctor.core.record import Record

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_MEASURES: Final[dict[str, Callable[[Comparison], float | None]]] = {
    "conclusion": lambda it: it.conclusion if it.common else None,
    "p": lambda it: it.adjusted_p if it.common else None,
    "common": lambda it: it.common,
    "rate": lambda it: it.second.rate.value if it.second.rate else None,
    "rate low": lambda it: it.second.rate.low if it.second.rate else None,
    "gain": lambda it: it.rate.difference.value if it.rate else None,
    "gain low": lambda it: it.rate.difference.low if it.rate else None,
    "gain high": lambda it: it.rate.difference.high if it.rate else None,
    "cost": lambda it: it.cost.second if it.cost else None,
    "cost ratio": lambda it: it.cost.ratio if it.cost else None,
    "cost ratio high": lambda it: it.cost.ratio_high if it.cost else None,
    "seconds": lambda it: it.seconds.second if it.seconds else None,
    "time ratio": lambda it: it.seconds.ratio if it.seconds else None,
    "time ratio high": lambda it: it.seconds.ratio_high if it.seconds else None,
    "lost": lambda it: len(it.lost),
    "gained": lambda it: len(it.gained),
    "errors": lambda it: it.second.errors,
    "findings": lambda it: it.second.findings,
}
MEASURES: Final = tuple(name for name in _MEASURES if name != "conclusion")
_RATES: Final = ("rate", "rate low", "gain", "gain low", "gain high")
_SHARES: Final = frozenset({*_RATES, "p"})
_RATIOS: Final = frozenset({"cost ratio", "cost ratio high", "time ratio", "time ratio high"})
_CLAUSE: Final = re.compile(r"(?P<measure>[a-z ]+?)\s*(?P<operator>>=|<=|>|<|=)\s*(?P<bound>.+)")
_NUMBER: Final = re.compile(r"\$?([+-]?\d+(?:\.\d+)?)\s*(%?)")


class GateClause(Record):
    """One condition: a measure of the comparison, and what it must be."""

    text: str
    measure: str
    operator: str
    bound: float


class GateRule(Record):
    """Conditions that must all hold."""

    text: str
    clauses: tuple[GateClause, ...]


class ClauseResult(Record):
    """The result of one condition; `value` is None where the measure is unknown, and then it does not hold."""

    clause: str
    measure: str
    value: float | None
    holds: bool


class GateDecision(Record):
    """Whether a comparison meets a rule, and why."""

    passed: bool
    sentence: str
    clause_results: tuple[ClauseResult, ...]


def parse_rule(text: str) -> GateRule:
    """Read a rule.

    Raises:
        UsageError: it cannot be parsed; names the part, and the possible measures.
    """
    clauses = tuple(_parse_clause(" ".join(part.lower().split())) for part in text.split(","))
    return GateRule(text=", ".join(clause.text for clause in clauses), clauses=clauses)


def decide(rule: GateRule, comparison: Comparison) -> GateDecision:
    """Apply a rule to a comparison."""
    outcomes = tuple(_evaluate_clause(clause, comparison) for clause in rule.clauses)
    failed = [outcome for outcome in outcomes if not outcome.holds]
    pair = f"{comparison.second.run} against {comparison.first.run}"
    if not failed:
        return GateDecision(passed=True, sentence=f"{pair}: the rule holds ({rule.text}).", clause_results=outcomes)
    why = "; ".join(f"{outcome.clause!r} does not hold, {_explain(outcome)}" for outcome in failed)
    return GateDecision(passed=False, sentence=f"{pair}: {why}.", clause_results=outcomes)


def _parse_clause(text: str) -> GateClause:
    if text == "better":
        return GateClause(text=text, measure="conclusion", operator=">=", bound=1)
    if text == "not worse":
        return GateClause(text=text, measure="conclusion", operator=">=", bound=0)
    for words, sign in (("better by ", 1), ("not worse by ", -1)):
        if text.startswith(words):
            written = text.removeprefix(words)
            share = _parse_bound(written, text, "gain low")
            if share < 0:
                raise UsageError(
                    f"{written!r} in {text!r} has a sign", fix="write it without; the words give the direction"
                )
            return GateClause(text=text, measure="gain low", operator=">=", bound=sign * share)
    found = _CLAUSE.fullmatch(text)
    if found is None or found["measure"] not in MEASURES:
        raise UsageError(
            f"{text!r} is not a condition" if text else "a rule has an empty condition",
            fix="write `better`, `not worse`, `better by 2%`, `not worse by 2%`, or a measure with a bound, such as "
            f"`cost ratio <= 1.2`; the measures are {', '.join(MEASURES)}",
        )
    bound = _parse_bound(found["bound"], text, found["measure"])
    return GateClause(text=text, measure=found["measure"], operator=found["operator"], bound=bound)


def _parse_bound(written: str, clause: str, measure: str) -> float:
    """A bound. One that is always or never met, because of a missing unit, is refused."""
    found = _NUMBER.fullmatch(written.strip())
    if found is None:
        raise UsageError(f"{written!r} in {clause!r} is not a number", fix="write 0.3, 30%, or $1.50")
    number = float(found[1]) / (100 if found[2] else 1)
    if measure in _SHARES and abs(number) > 1:
        raise UsageError(f"{written!r} in {clause!r} is more than the whole", fix=f"write {float(found[1]):g}%, or 0.3")
    if found[2] and measure not in _SHARES | _RATIOS:
        raise UsageError(f"{written!r} in {clause!r}: {measure} takes no percentage", fix="write a plain number")
    return number


def _evaluate_clause(clause: GateClause, comparison: Comparison) -> ClauseResult:
    value = _MEASURES[clause.measure](comparison)
    holds = value is not None and _OPERATORS[clause.operator](value, clause.bound)
    return ClauseResult(clause=clause.text, measure=clause.measure, value=value, holds=holds)


def _explain(outcome: ClauseResult) -> str:
    if outcome.value is None and outcome.measure == "conclusion":
        return "since no graded task is in common"
    if outcome.value is None:
        return f"since {outcome.measure} is unknown"
    if outcome.measure == "conclusion":
        conclusions = {1: "shown to be better", 0: "no difference shown", -1: "shown to be worse"}
        return conclusions[int(outcome.value)]
    if outcome.measure in _RATES:
        return f"{outcome.measure} is {100 * outcome.value:.4g}%"
    return f"{outcome.measure} is {outcome.value:.4g}"
