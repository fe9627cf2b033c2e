from .channel import Channel
from .errors import Cancelled, Closed, Deadlock
from .operations import join, select, sleep
from .scheduler import Scheduler

__all__ = ["Cancelled", "Channel", "Closed", "Deadlock", "Scheduler", "join", "select", "sleep"]
