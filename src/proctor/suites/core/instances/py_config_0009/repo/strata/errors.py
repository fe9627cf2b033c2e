class ConfigError(Exception):
    """Something is wrong with the configuration; the text says what and where."""
