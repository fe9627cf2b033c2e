from .calendar import Calendar, Event
from .expand import occurrences
from .rule import Rule
from .text import parse

__all__ = ["Calendar", "Event", "Rule", "occurrences", "parse"]
