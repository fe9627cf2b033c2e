"""Results in a browser: served on loopback, read-only, from the stored files, also of a run that is running.

What an agent wrote is treated as hostile. Templates escape everything, pages load only our own style sheet, script and
icon, and no request leaves the machine.
"""

from proctor.report.viewer.server import Viewer, serve

__all__ = ["Viewer", "serve"]
