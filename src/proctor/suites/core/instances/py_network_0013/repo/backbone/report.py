from .analysis import islands, weak_cables, weak_sites


def report(network):
    """What there is and what is weak, as text."""
    parts = islands(network)
    lines = [f"{len(network.sites())} sites, {len(network.cables())} cables, {_counted(len(parts), 'part')}"]
    for title, weak in (("cables", weak_cables(network)), ("sites", weak_sites(network))):
        lines.append(f"weak {title}: {', '.join(map(str, weak)) if weak else 'none'}")
    return "\n".join(lines) + "\n"


def _counted(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
