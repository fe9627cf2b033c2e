"""Pods that h2 runs, as the agent `h2_pod` sees them.

`adapter` holds all that is particular to a version of h2; `watch` says when a pod is done or cannot go on; `timeline`
turns what it left behind into who was active when, and into metrics; `template` finds pod templates.
"""

from proctor.agents.h2.adapter import h2_version
from proctor.agents.h2.template import load_checked_template
from proctor.agents.h2.timeline import TIMELINE_FILE, Timeline, render_timeline

__all__ = ["TIMELINE_FILE", "Timeline", "h2_version", "load_checked_template", "render_timeline"]
