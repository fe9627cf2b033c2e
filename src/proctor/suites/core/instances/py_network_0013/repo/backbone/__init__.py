from .analysis import islands, weak_cables, weak_sites
from .network import Network
from .report import report

__all__ = ["Network", "islands", "report", "weak_cables", "weak_sites"]
