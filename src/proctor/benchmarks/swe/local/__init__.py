"""Instances without Docker: a checkout of the repository beside a virtual environment with the official pins.

`pins` reads the official conda environment, `official_scripts` the official set-up and eval scripts, `build` makes the
virtual environment and the tree once and caches them, and `LocalInstanceSetup` makes environments of them. What keeps
an instance from being set up on this machine is reported before anything is spent on it.
"""

from proctor.benchmarks.swe.local.local_setup import LocalInstanceSetup

__all__ = ["LocalInstanceSetup"]
