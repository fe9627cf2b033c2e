class FormatError(ValueError):
    """The text is not CSV; `line` says where the problem began."""

    def __init__(self, message, line):
        super().__init__(f"line {line}: {message}")
        self.line = line
