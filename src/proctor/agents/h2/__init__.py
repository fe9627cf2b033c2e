"""Pods that h2 runs, as the agent `h2_pod` sees them.

`adapter` has all that depends on the version of h2; `pod_environment` runs its commands; `pod_state` decides when a pod
is done or has failed; `timeline` makes activity by agent, and metrics, from its logs; `template` finds pod templates.
"""

from proctor.agents.h2.adapter import h2_version
from proctor.agents.h2.template import load_checked_template
from proctor.agents.h2.timeline import TIMELINE_FILE, Timeline, render_timeline

__all__ = ["TIMELINE_FILE", "Timeline", "h2_version", "load_checked_template", "render_timeline"]
