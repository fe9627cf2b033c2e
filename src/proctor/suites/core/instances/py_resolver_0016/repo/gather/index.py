from .ranges import Range
from .versions import Version


class Index:
    """The packages that were published, in memory."""

    def __init__(self):
        self._packages = {}

    def publish(self, name, version, requires=None):
        versions = self._packages.setdefault(name, {})
        version = Version(version)
        if version in versions:
            raise ValueError(f"{name} {version} is published already")
        versions[version] = {other: Range(text) for other, text in (requires or {}).items()}

    def versions(self, name):
        """All versions of a package, the newest first; none if nobody published it."""
        return sorted(self._packages.get(name, ()), reverse=True)

    def requirements(self, name, version):
        """What a version requires: a dict from name to range."""
        return self._packages[name][version]
