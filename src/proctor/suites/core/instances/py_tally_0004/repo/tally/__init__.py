from .accumulator import Tally
from .groups import Groups

__all__ = ["Groups", "Tally"]
