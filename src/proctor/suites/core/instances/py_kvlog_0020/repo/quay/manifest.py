"""Which segments count."""

NAME = "MANIFEST"


def load(disk):
    """The names of the segments, the oldest first; none in a new store."""
    if NAME not in disk.names():
        return []
    return disk.read(NAME).decode("ascii").split()


def save(disk, segments):
    disk.create(NAME)
    disk.append(NAME, "".join(name + "\n" for name in segments).encode("ascii"))
    disk.sync(NAME)
