class Damaged(Exception):
    """A file is not what it was when it was written."""
