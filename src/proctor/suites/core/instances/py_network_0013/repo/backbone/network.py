class Network:
    """Sites, and cables between them."""

    def __init__(self):
        self._cables = {}  # id -> (site, site)
        self._at = {}  # site -> ids of the cables that end there

    def add_site(self, site):
        self._at.setdefault(site, [])

    def lay(self, cable, one, other):
        if cable in self._cables:
            raise ValueError(f"there is a cable {cable!r} already")
        self._cables[cable] = (one, other)
        for site in (one, other):
            self.add_site(site)
        self._at[one].append(cable)
        if one != other:
            self._at[other].append(cable)

    def cut(self, cable):
        for site in set(self._cables.pop(cable)):
            self._at[site].remove(cable)

    def sites(self):
        return list(self._at)

    def cables(self):
        return list(self._cables)

    def from_site(self, site):
        """Each cable at a site with the site at its other end."""
        for cable in self._at[site]:
            one, other = self._cables[cable]
            yield cable, other if one == site else one
