"""Amounts of money: whole cents, by currency."""

import re

_AMOUNT = re.compile(r"(-?)([0-9]+)(?:\.([0-9]{1,2}))? ([A-Z]{3})")


def read_amount(text):
    """(cents, currency), or None if this is not an amount."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        return None
    sign, whole, decimals, currency = match.groups()
    cents = int(whole) * 100 + int((decimals or "").ljust(2, "0"))
    return (-cents if sign else cents), currency


def show_amount(cents, currency):
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d} {currency}"


class Pile(dict):
    """Cents by currency; currencies of which there is nothing are left out."""

    def put(self, cents, currency):
        total = self.get(currency, 0) + cents
        if total:
            self[currency] = total
        else:
            self.pop(currency, None)

    def put_all(self, other):
        for currency, cents in other.items():
            self.put(cents, currency)

    def shown(self):
        """One text per currency, in the order of their names."""
        return [show_amount(self[currency], currency) for currency in sorted(self)]
