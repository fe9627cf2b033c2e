"""Suites from a repository's history: fixes that were merged become tasks, with the tests that came with them.

`history` reads the repository, `candidates` and `split` choose changes and take them apart, `languages` say what tests
need and how they run, `label_runs` and `labels` find out by running them which tests decide, `instruction` and `flags`
say what is asked and how fairly, `task_maker` does all of it for one change, and `miner` for a history.
"""
