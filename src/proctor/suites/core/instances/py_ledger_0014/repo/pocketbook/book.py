"""What the transactions mean."""

from .journal import JournalError
from .money import Pile, show_amount


def complete(transactions):
    """Fills in the amounts that were left open and checks that everything adds up to zero."""
    for transaction in transactions:
        left = Pile()
        empty = []
        for posting in transaction.postings:
            if posting.amounts is not None:
                left.put_all(posting.amounts)
            else:
                empty.append(posting)
        if len(empty) > 1:
            raise JournalError(empty[1].line, "a second posting without an amount")
        if empty:
            empty[0].amounts = Pile({currency: -cents for currency, cents in left.items()})
        elif left:
            raise JournalError(transaction.line, f"does not add up: {', '.join(left.shown())} too much")
    return transactions


def balances(transactions, prefix="", depth=None):
    """A dict from account to Pile, without empty ones."""
    sums = {}
    for posting in _postings(transactions, prefix):
        account = posting.account
        if depth is not None:
            account = ":".join(account.split(":")[:depth])
        sums.setdefault(account, Pile()).put_all(posting.amounts)
    return {account: pile for account, pile in sums.items() if pile}


def register(transactions, prefix):
    """Lines of (day, description, account, amount, running total of that currency)."""
    running = Pile()
    lines = []
    for transaction in transactions:
        for posting in _postings([transaction], prefix):
            for currency in sorted(posting.amounts):
                cents = posting.amounts[currency]
                running.put(cents, currency)
                total = show_amount(running.get(currency, 0), currency)
                amount = show_amount(cents, currency)
                lines.append((transaction.day, transaction.description, posting.account, amount, total))
    return lines


def _postings(transactions, prefix):
    for transaction in transactions:
        for posting in transaction.postings:
            if posting.account == prefix or posting.account.startswith(prefix.rstrip(":") + ":") or not prefix:
                yield posting
