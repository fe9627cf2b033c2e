"""Formats that hold trajectories: ATIF, and the job folders of Harbor. They register as ``proctor.formats``."""
