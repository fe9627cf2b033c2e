"""The units, from the largest to the smallest, in milliseconds."""

UNITS = (
    ("w", 7 * 24 * 60 * 60 * 1000),
    ("d", 24 * 60 * 60 * 1000),
    ("h", 60 * 60 * 1000),
    ("m", 60 * 1000),
    ("s", 1000),
    ("ms", 1),
)

SIZES = dict(UNITS)
