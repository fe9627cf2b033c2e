FILTERS = {
    "upper": lambda value: str(value).upper(),
    "lower": lambda value: str(value).lower(),
    "trim": lambda value: str(value).strip(),
    "join": lambda values, separator="": separator.join(map(str, values)),
    "length": len,
    "default": lambda value, other: other if value is None else value,
}
