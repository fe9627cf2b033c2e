from .book import balances, complete
from .journal import JournalError, parse

__all__ = ["JournalError", "balances", "complete", "parse"]
