from .errors import FormatError


class Reader:
    """Takes text in pieces and gives the rows that are complete."""

    def __init__(self, delimiter=",", quote='"'):
        self._delimiter = delimiter
        self._quote = quote
        self._row = []
        self._field = []
        self._quoted = False
        self._line = 1

    def feed(self, piece):
        """The rows that this piece completes."""
        if self._line == 1 and piece.startswith("\ufeff"):
            piece = piece[1:]
        done = []
        index = 0
        while index < len(piece):
            char = piece[index]
            following = piece[index + 1 : index + 2]
            if self._quoted:
                if char == self._quote and following == self._quote:
                    self._field.append(char)
                    index += 1
                elif char == self._quote:
                    self._quoted = False
                else:
                    self._field.append(char)
                    if char == "\n":
                        self._line += 1
            elif char == self._quote and not self._field:
                self._quoted = True
            elif char == self._delimiter:
                self._end_field()
            elif char in "\r\n":
                if char == "\r" and following == "\n":
                    index += 1
                self._line += 1
                done.append(self._end_row())
            else:
                self._field.append(char)
            index += 1
        return done

    def close(self):
        """The last row, if its line end was missing."""
        if self._quoted:
            raise FormatError("a quoted field is not closed", self._line)
        if not self._row and not self._field:
            return []
        return [self._end_row()]

    def _end_field(self):
        self._row.append("".join(self._field))
        self._field = []

    def _end_row(self):
        if self._row or self._field:
            self._end_field()
        row, self._row = self._row, []
        return row
