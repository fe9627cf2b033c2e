from .ranges import Range


class Conflict(Exception):
    """There are no versions that fit together."""


def resolve(wanted, index):
    """A dict from name to version, as text, of everything that `wanted` (a dict from name to range) needs."""
    ranges = {name: [Range(text)] for name, text in wanted.items()}
    order = list(wanted)
    chosen = {}
    for name in order:
        fitting = [version for version in index.versions(name) if all(version in range for range in ranges[name])]
        if not fitting:
            raise Conflict(f"no version of {name} fits")
        chosen[name] = fitting[0]
        for other, range in index.requirements(name, chosen[name]).items():
            if other in chosen and chosen[other] not in range:
                raise Conflict(f"{name} {chosen[name]} does not take {other} {chosen[other]}")
            if other not in ranges:
                order.append(other)
            ranges.setdefault(other, []).append(range)
    return {name: str(chosen[name]) for name in sorted(chosen)}
