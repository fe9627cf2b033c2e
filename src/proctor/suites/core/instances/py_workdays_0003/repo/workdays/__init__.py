from .calendar import Calendar
from .holidays import load_holidays

__all__ = ["Calendar", "load_holidays"]
