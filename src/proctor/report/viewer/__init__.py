"""Results in a browser: served on loopback, read-only, from files alone, so that a run can be watched while it goes.

Whatever an agent wrote is hostile until proved otherwise. Templates escape everything, the pages may load nothing but
our own two files, and no request leaves the machine.
"""

from proctor.report.viewer.server import Viewer, serve

__all__ = ["Viewer", "serve"]
