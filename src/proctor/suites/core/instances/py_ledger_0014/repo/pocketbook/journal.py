"""The text file."""

import re
from datetime import date

from .money import Pile, read_amount

_HEAD = re.compile(r"(\d{4})-(\d{2})-(\d{2})\s+(\S.*)")


class JournalError(Exception):
    def __init__(self, line, message):
        super().__init__(message)
        self.line = line


class Posting:
    def __init__(self, line, account, amounts):
        self.line = line
        self.account = account
        self.amounts = amounts  # a Pile, or None where it was left open


class Transaction:
    def __init__(self, line, day, description):
        self.line = line
        self.day = day
        self.description = description
        self.postings = []


def parse(text):
    """The transactions of the file, as they are written."""
    transactions = []
    current = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition(";")[0].rstrip()
        if not raw.strip():
            current = None
        elif not line:
            continue  # nothing but a comment
        elif not line[0].isspace():
            current = _head(number, line)
            transactions.append(current)
        elif current is None:
            raise JournalError(number, "a posting without a transaction")
        else:
            current.postings.append(_posting(number, line.strip()))
    return transactions


def _head(number, line):
    match = _HEAD.fullmatch(line)
    if match is None:
        raise JournalError(number, "expected a date and a description")
    try:
        day = date(*map(int, match.groups()[:3]))
    except ValueError:
        raise JournalError(number, "there is no such day") from None
    return Transaction(number, day, match.group(4))


def _posting(number, text):
    account, _, rest = text.partition(" ")
    rest = rest.strip()
    if not rest:
        return Posting(number, account, None)
    amount = read_amount(rest)
    if amount is None:
        raise JournalError(number, f"not an amount: {rest!r}")
    pile = Pile()
    pile.put(*amount)
    return Posting(number, account, pile)
