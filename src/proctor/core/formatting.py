"""How numbers, times and text are written for people: at a terminal, in reports, in the viewer.

Agents choose file names, test ids and final texts. What they wrote is printed such that it is what it seems to be.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Final

NO_VALUE: Final = "-"
DEFAULT_LINE_CHARS: Final = 100
_GAP: Final = "   "
_LEAST_WIDTH: Final = 20  # in a terminal that is narrower than this, lines are longer
_CENTS: Final = 0.1
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_SHOW_TENTHS_BELOW: Final = 9.95
_KILOBYTE: Final = 1000
_COLLAPSED_FROM: Final = 4
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Characters that are invisible, or change the direction of others.
_HIDDEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
    r"|[\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Text without terminal escapes, in which every invisible character is replaced by its code."""
    return _HIDDEN.sub(
        lambda found: (
            f"\N{MATHEMATICAL LEFT WHITE SQUARE BRACKET}{ord(found[0]):X}\N{MATHEMATICAL RIGHT WHITE SQUARE BRACKET}"
        ),
        _ESCAPES.sub("", text.replace("\r\n", "\n")),
    )


def one_line(text: str) -> str:
    """The same for a cell of a table."""
    return visible(text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def truncate_line(text: str, max_chars: int = DEFAULT_LINE_CHARS) -> str:
    """Text on one line, without control characters, cut to a length."""
    # The beginning is enough: the whole may be megabytes.
    words = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * max_chars]).split()
    line = " ".join(words)
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def sanitize_argument(text: str) -> str:
    """Text that can be an argument or a variable of a program: UTF-8 without NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def align_columns(rows: Sequence[Sequence[str]], *, width: int | None = None, rule: bool = False) -> list[str]:
    """Rows of cells as lines, each column as wide as its widest cell.

    Where a line would be wider than `width`, cells of the widest columns are folded. With `rule`, a line of dashes
    follows the first row.
    """
    widths = _fitted_widths(column_widths(rows), width)
    lines: list[str] = []
    for number, row in enumerate(rows):
        folded = [_folded(cell, size) for cell, size in zip(row, widths, strict=True)]
        lines += [_GAP.join(map(str.ljust, line, widths)).rstrip() for line in zip_longest(*folded, fillvalue="")]
        if rule and number == 0:
            lines.append(_GAP.join("-" * size for size in widths))
    return lines


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column is."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def column_blocks(widths: Sequence[int], width: int | None) -> list[list[int]]:
    """Which columns are beside each other: all of them, or as many as fit, each time with the first."""
    blocks = [[0]]
    for column in range(1, len(widths)):
        needed = sum(widths[one] + len(_GAP) for one in blocks[-1]) + widths[column]
        if width is not None and needed > width and len(blocks[-1]) > 1:
            blocks.append([0])
        blocks[-1].append(column)
    return blocks


def _fitted_widths(widths: Sequence[int], width: int | None) -> list[int]:
    """Columns that fit into a width: the widest ones give way, down to the same size."""
    left = max(width or 0, _LEAST_WIDTH) - len(_GAP) * (len(widths) - 1)
    if width is None or sum(widths) <= left:
        return list(widths)
    fitted = [1] * len(widths)
    for place, column in enumerate(sorted(range(len(widths)), key=lambda one: widths[one])):
        fitted[column] = max(1, min(widths[column], left // (len(widths) - place)))
        left -= fitted[column]
    return fitted


def _folded(cell: str, size: int) -> list[str]:
    if len(cell) <= size:
        return [cell]
    from textwrap import wrap

    return wrap(cell, size, break_on_hyphens=False) or [""]


def money(usd: float | None) -> str:
    """An amount: in cents, and below ten cents in hundredths of a cent."""
    if usd is None:
        return "unknown"
    return f"${usd:,.2f}" if usd >= _CENTS or usd == 0 else f"${usd:.4f}"


def duration(seconds: float | None) -> str:
    """Minutes and seconds; tenths of seconds below ten seconds; hours and minutes from an hour on."""
    if seconds is None or not math.isfinite(seconds):
        return NO_VALUE
    if seconds < _SHOW_TENTHS_BELOW:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    if minutes >= _MINUTE:
        return f"{minutes // _MINUTE}h {minutes % _MINUTE:02}m"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest}s"


def age(seconds: float | None) -> str:
    """How long ago something was, in its largest unit: 40 s, 12 min, 5 h, 3 d."""
    if seconds is None:
        return NO_VALUE
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def timestamp(moment: str | datetime | None, *, seconds: bool = True) -> str:
    """A moment to the second or to the minute, in its own time zone, which is named where it is known.

    Text that is no moment stays as it is.
    """
    try:
        known = moment if isinstance(moment, datetime) else datetime.fromisoformat(moment or "")
    except ValueError:
        return str(moment or "")
    zone = known.strftime("%z")
    named = "" if not zone else " UTC" if known.utcoffset() == timedelta(0) else f" {zone[:3]}:{zone[3:5]}"
    return known.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M") + named


def percent(fraction: float | None) -> str:
    """A share of a whole."""
    return NO_VALUE if fraction is None else f"{fraction:.1%}"


def percent_interval(low: float | None, high: float | None) -> str:
    """The two ends of the interval of a share."""
    return NO_VALUE if low is None or high is None else f"{percent(low)} to {percent(high)}"


def percentage_points(fraction: float | None, low: float | None = None, high: float | None = None) -> str:
    """A difference of two shares with its sign, and its interval where there is one."""
    if fraction is None:
        return NO_VALUE
    ends = "" if low is None or high is None else f" ({100 * low:+.1f} to {100 * high:+.1f})"
    return f"{100 * fraction:+.1f} points{ends}"


def number(value: float | None, digits: int = 1) -> str:
    """A plain number."""
    return NO_VALUE if value is None else f"{value:,.{digits}f}"


def short_count(value: float | None) -> str:
    """A large number in few digits."""
    if value is None:
        return NO_VALUE
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{letter}"
    return f"{value:.0f}"


def file_size(count: int) -> str:
    """The size of a file in bytes."""
    return f"{count} B" if count < _KILOBYTE else f"{short_count(count)}B"


def plural(count: int, noun: str) -> str:
    """A number of things; one thing."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def group_reasons(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """The ids of tasks that share a reason, which does not name them; the most frequent reason first."""
    groups: dict[str, list[str]] = {}
    for task_id, reason in reasons.items():
        groups.setdefault(unnamed_reason(task_id, reason), []).append(task_id)
    worded: dict[str, list[str]] = {}
    for why, ids in groups.items():
        # What only one task has can be said in its own words.
        worded.setdefault(reasons[ids[0]].removeprefix(f"{ids[0]}: ") if len(ids) == 1 else why, []).extend(ids)
    return dict(sorted(worded.items(), key=lambda item: -len(item[1])))


def unnamed_reason(task_id: str, reason: str) -> str:
    """A reason with ``TASK`` in the place of its task's id, so that it can be compared with those of others."""
    text = reason.removeprefix(f"{task_id}: ")
    return re.sub(rf"(?<!\w){re.escape(task_id)}(?!\w)", "TASK", text)


def collapse_rows(reasons: Mapping[str, str]) -> dict[str, str | None]:
    """What the rows of tasks are called in a table where many share a reason: one row stands for all of them.

    Its first task is called by their number, and the others, which have no row, None.
    """
    names: dict[str, str | None] = {}
    for ids in group_reasons(reasons).values():
        if len(ids) >= _COLLAPSED_FROM:
            names |= {**dict.fromkeys(ids), ids[0]: _many(ids)}
    return names


def reason_lines(reasons: Mapping[str, str]) -> list[str]:
    """A line for each reason, with the task that has it, or how many have it and the first of them."""
    return [f"{ids[0] if len(ids) == 1 else _many(ids)}: {why}" for why, ids in group_reasons(reasons).items()]


def _many(ids: Sequence[str]) -> str:
    return f"{len(ids):,} tasks ({ids[0]}, …)"
