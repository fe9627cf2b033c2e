import argparse
import sys

from .book import balances, complete, register
from .journal import JournalError, parse


def main(argv=None, out=None, err=None):
    out, err = out or sys.stdout, err or sys.stderr
    options = _options(argv)
    try:
        with open(options.file, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        err.write(f"{options.file}: {error.strerror}\n")
        return 1
    try:
        transactions = complete(parse(text))
    except JournalError as error:
        err.write(f"{options.file}:{error.line}: {error}\n")
        return 1
    for line in _COMMANDS[options.command](transactions, options):
        out.write(line.rstrip() + "\n")
    return 0


def _balance(transactions, options):
    sums = balances(transactions, options.prefix or "", options.depth)
    for account in sorted(sums):
        for amount in sums[account].shown():
            yield f"{amount:>16}  {account}"


def _register(transactions, options):
    for day, description, account, amount, total in register(transactions, options.prefix or ""):
        yield f"{day}  {description[:20]:<20}  {account:<24}{amount:>16}{total:>16}"


def _print(transactions, options):
    for number, transaction in enumerate(transactions):
        if number:
            yield ""
        yield f"{transaction.day} {transaction.description}"
        for posting in transaction.postings:
            for amount in posting.amounts.shown():
                yield f"    {posting.account:<24}{amount:>16}"


def _check(transactions, options):
    return []


_COMMANDS = {"balance": _balance, "register": _register, "print": _print, "check": _check}


def _options(argv):
    parser = argparse.ArgumentParser(prog="pocketbook")
    parser.add_argument("file")
    parser.add_argument("command", choices=sorted(_COMMANDS))
    parser.add_argument("prefix", nargs="?")
    parser.add_argument("--depth", type=int)
    return parser.parse_args(argv)
