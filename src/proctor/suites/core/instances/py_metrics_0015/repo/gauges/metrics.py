"""The kinds of metrics, and all metrics there are."""

DEFAULT_BOUNDS = (1, 5, 10, 50, 100)

METRICS = {}  # name -> metric
VALUES = {}  # name -> labels -> number, or [count per bound, ..., count beyond, sum]


def _key(labels):
    return tuple(sorted(labels.items()))


class Counter:
    kind = "counter"

    def __init__(self, name, help):
        self.name = name
        self.help = help

    def add(self, amount=1, **labels):
        if amount < 0:
            raise ValueError("counters only go up")
        values = VALUES.setdefault(self.name, {})
        key = _key(labels)
        values[key] = values.get(key, 0) + amount

    def value(self, **labels):
        return VALUES.get(self.name, {}).get(_key(labels), 0)

    def series(self):
        """Pairs of labels and lines: suffix of the name, further labels, value."""
        for key, value in VALUES.get(self.name, {}).items():
            yield key, [("", (), value)]


class Histogram:
    kind = "histogram"

    def __init__(self, name, help, bounds):
        bounds = tuple(bounds)
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError("bounds must rise")
        self.name = name
        self.help = help
        self.bounds = bounds

    def observe(self, value, **labels):
        counts = VALUES.setdefault(self.name, {}).setdefault(_key(labels), [0] * (len(self.bounds) + 2))
        index = 0
        while index < len(self.bounds) and value > self.bounds[index]:
            index += 1
        counts[index] += 1
        counts[-1] += value

    def count(self, **labels):
        return sum(VALUES.get(self.name, {}).get(_key(labels), [0])[:-1])

    def series(self):
        """Pairs of labels and lines: suffix of the name, further labels, value."""
        for key, counts in VALUES.get(self.name, {}).items():
            total = 0
            lines = []
            for bound, count in zip(self.bounds + ("inf",), counts):
                total += count
                lines.append(("_bucket", (("le", bound),), total))
            lines.append(("_sum", (), counts[-1]))
            lines.append(("_count", (), total))
            yield key, lines


def counter(name, help=""):
    return _get(Counter, name, help)


def histogram(name, help="", bounds=DEFAULT_BOUNDS):
    metric = _get(Histogram, name, help, bounds)
    if metric.bounds != tuple(bounds):
        raise ValueError(f"{name} exists with the bounds {metric.bounds}")
    return metric


def reset():
    """Sets all values to nothing; the metrics stay."""
    VALUES.clear()


def _get(kind, name, *arguments):
    metric = METRICS.get(name)
    if metric is None:
        metric = METRICS[name] = kind(name, *arguments)
    elif type(metric) is not kind:
        raise ValueError(f"{name} exists as a {metric.kind}")
    return metric
