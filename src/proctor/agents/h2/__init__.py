"""Pods that h2 runs, as the agent `h2_pod` sees them.

`adapter` holds all that is particular to a version of h2; `watch` says when a pod is done or cannot go on; `timeline`
turns what it left behind into who was active when, and into metrics; `template` finds pod templates.
"""

from proctor.agents.h2.adapter import h2_version
from proctor.agents.h2.template import check_pod
from proctor.agents.h2.timeline import TIMELINE, Timeline, draw

__all__ = ["TIMELINE", "Timeline", "check_pod", "draw", "h2_version"]
