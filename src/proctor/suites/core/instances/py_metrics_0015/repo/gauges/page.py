"""The text page."""

from .metrics import METRICS


def render():
    """The page of all metrics."""
    out = []
    for name in sorted(METRICS):
        out.extend(_section(name, METRICS[name]))
    return "".join(line + "\n" for line in out)


def _section(name, metric):
    if metric.help:
        yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} {metric.kind}"
    for labels, lines in sorted(metric.series(), key=lambda item: item[0]):
        for suffix, more, value in lines:
            yield _line(name + suffix, labels + more, value)


def _line(name, labels, value):
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def _escaped(value):
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
