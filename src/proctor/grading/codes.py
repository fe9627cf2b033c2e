"""Codes that stand for what was found."""

from enum import StrEnum
from typing import Self


class FindingCode(StrEnum):
    """Smells by their names, each with what it means. A code is stable: reports count by it."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member
