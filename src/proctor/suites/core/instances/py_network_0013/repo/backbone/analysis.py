"""Depth-first search: what holds the parts together."""


def weak_cables(network):
    """The ids of the cables without which some sites lose touch with each other."""
    cables, _ = _search(network)
    return sorted(cables)


def weak_sites(network):
    """The sites without which some of the others lose touch with each other."""
    _, sites = _search(network)
    return sorted(sites)


def islands(network):
    """The parts of the network, each a sorted list of sites."""
    seen = set()
    parts = []
    for start in network.sites():
        if start in seen:
            continue
        seen.add(start)
        part = [start]
        for site in part:
            for _, neighbour in network.from_site(site):
                if neighbour not in seen:
                    seen.add(neighbour)
                    part.append(neighbour)
        parts.append(sorted(part))
    return sorted(parts)


def _search(network):
    order = {}  # site -> when it was found
    reach = {}  # site -> the earliest site that it or those found through it have a cable to
    cables = set()
    sites = set()

    def visit(site, above):
        order[site] = reach[site] = len(order)
        for cable, neighbour in network.from_site(site):
            if neighbour == above:
                continue
            if neighbour in order:
                reach[site] = min(reach[site], order[neighbour])
                continue
            visit(neighbour, site)
            reach[site] = min(reach[site], reach[neighbour])
            if reach[neighbour] > order[site]:
                cables.add(cable)
            if reach[neighbour] >= order[site]:
                sites.add(site)

    for site in network.sites()[:1]:
        visit(site, None)
    return cables, sites
