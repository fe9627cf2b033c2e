"""An adversary: submissions that want to be graded `resolved` without solving the task. `make cheats` prints them."""
