from .reader import Reader


def rows(pieces):
    reader = Reader()
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.close()


def records(pieces):
    """Each row as a dict; the first row has the names, empty lines are left out."""
    names = None
    for number, row in enumerate(rows(pieces), 1):
        if not row:
            continue
        if names is None:
            names = row
        elif len(row) != len(names):
            raise ValueError(f"row {number} has {len(row)} fields, not {len(names)}")
        else:
            yield dict(zip(names, row))
