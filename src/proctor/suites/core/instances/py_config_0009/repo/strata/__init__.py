from .config import Config
from .errors import ConfigError

__all__ = ["Config", "ConfigError"]
