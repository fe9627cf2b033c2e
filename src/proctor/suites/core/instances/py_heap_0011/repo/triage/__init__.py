from .desk import Desk
from .waiting import WaitingList

__all__ = ["Desk", "WaitingList"]
