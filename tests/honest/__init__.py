"""Honest submissions: other right answers to the tasks of the suite `core` than their oracles."""
