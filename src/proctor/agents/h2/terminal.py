"""What stands on a terminal after a program has written to it.

As much of a terminal as Claude Code and h2 use: text, moves of the cursor, and what erases or shifts text. Colours and
modes are passed over. What is read from the text never depends on more.
"""

import re
import unicodedata
from typing import Final

ROWS: Final = 22
COLUMNS: Final = 80
_TAB: Final = 8
# Lines down and columns to the right.
_MOVES: Final = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1), "E": (1, 0), "F": (-1, 0)}
_TOKEN: Final = re.compile(
    r"\x1b\[(?P<arguments>[0-9;:?<>=!]*)[ -/]*(?P<sequence>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|\x1b(?P<escape>[ -/]*[0-~])|(?P<control>[\x00-\x1f\x7f])|(?P<text>[^\x00-\x1f\x7f]+)"
)


class Terminal:
    """A terminal: `feed` it what a program writes, and read `text`."""

    def __init__(self, rows: int = ROWS, columns: int = COLUMNS) -> None:
        self._rows = rows
        self._columns = columns
        self._cells = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._saved = (0, 0)

    @property
    def text(self) -> str:
        """The lines of the screen, without spaces at their ends and without empty lines at the end."""
        return "\n".join("".join(row).rstrip() for row in self._cells).rstrip()

    def feed(self, written: bytes) -> None:
        """Take what a program has written, in whole characters and sequences."""
        for token in _TOKEN.finditer(written.decode("utf-8", "replace")):
            if token["text"]:
                for character in token["text"]:
                    self._put(character)
            elif token["control"]:
                self._control(token["control"])
            elif token["sequence"]:
                self._sequence(token["sequence"], token["arguments"])
            elif token["escape"]:
                self._escape(token["escape"])

    def _put(self, character: str) -> None:
        if unicodedata.combining(character) or character in "\u200d\ufe0e\ufe0f":
            return
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        # A line that is full is left only when more comes.
        if self._column + width > self._columns:
            self._column = 0
            self._line_feed()
        self._cells[self._row][self._column : self._column + width] = [character, *[""] * (width - 1)]
        self._column += width

    def _control(self, control: str) -> None:
        match control:
            case "\r":
                self._column = 0
            case "\n" | "\v" | "\f":
                self._line_feed()
            case "\b":
                self._column = max(0, min(self._column, self._columns) - 1)
            case "\t":
                self._column = min(self._columns - 1, (self._column // _TAB + 1) * _TAB)

    def _escape(self, escape: str) -> None:
        match escape:
            case "7":
                self._saved = (self._row, self._column)
            case "8":
                self._row, self._column = self._saved
            case "M":
                if self._row == 0:
                    self._shift_lines(0, 1)
                self._move(self._row - 1, self._column)
            case "c":
                self._erase_screen(2)
                self._move(0, 0)

    def _sequence(self, sequence: str, arguments: str) -> None:
        if arguments[:1] in {"?", "<", ">", "=", "!"}:
            # Another screen, which begins empty.
            if sequence in "hl" and {"1049", "1047", "47"} & set(arguments[1:].split(";")):
                self._erase_screen(2)
                self._move(0, 0)
            return
        numbers = [int(part) if part.isdigit() else 0 for part in arguments.split(";")]
        count = max(1, numbers[0])
        if sequence in _MOVES:
            down, right = _MOVES[sequence]
            self._move(self._row + down * count, 0 if sequence in "EF" else self._column + right * count)
        elif sequence in "Hf":
            self._move(count - 1, max(1, numbers[1] if len(numbers) > 1 else 1) - 1)
        elif sequence in "G`":
            self._move(self._row, count - 1)
        elif sequence == "d":
            self._move(count - 1, self._column)
        elif sequence in "su":
            self._escape({"s": "7", "u": "8"}[sequence])
        else:
            self._edit(sequence, numbers[0], count)

    def _edit(self, sequence: str, what: int, count: int) -> None:
        row = self._cells[self._row]
        match sequence:
            case "J":
                self._erase_screen(what)
            case "K":
                self._erase_line(what)
            case "X":
                self._blank(self._row, self._column, self._column + count)
            case "P":
                del row[self._column : self._column + count]
                row += [" "] * (self._columns - len(row))
            case "@":
                row[self._column : self._column] = [" "] * count
                del row[self._columns :]
            case "L" | "M":
                self._shift_lines(self._row, count if sequence == "L" else -count)
            case "S" | "T":
                self._shift_lines(0, -count if sequence == "S" else count)

    def _move(self, row: int, column: int) -> None:
        self._row = min(max(row, 0), self._rows - 1)
        self._column = min(max(column, 0), self._columns - 1)

    def _line_feed(self) -> None:
        if self._row == self._rows - 1:
            self._shift_lines(0, -1)
        else:
            self._row += 1

    def _shift_lines(self, top: int, down: int) -> None:
        """Shift the lines from `top` on, down or (negative) up; what leaves the screen is gone."""
        moving = self._cells[top:]
        empty = [[" "] * self._columns for _ in range(min(abs(down), len(moving)))]
        self._cells[top:] = (empty + moving)[: len(moving)] if down > 0 else (moving + empty)[-len(moving) :]

    def _erase_screen(self, what: int) -> None:
        self._erase_line(what)
        above, below = range(self._row), range(self._row + 1, self._rows)
        for row in {0: below, 1: above}.get(what, range(self._rows)):
            self._blank(row, 0, self._columns)

    def _erase_line(self, what: int) -> None:
        start = 0 if what else self._column
        self._blank(self._row, start, self._column + 1 if what == 1 else self._columns)

    def _blank(self, row: int, start: int, end: int) -> None:
        end = min(end, self._columns)
        if start < end:
            self._cells[row][start:end] = [" "] * (end - start)
