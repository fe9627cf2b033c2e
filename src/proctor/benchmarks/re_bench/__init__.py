"""RE-Bench: open-ended research engineering, scored over time on a scale from the starting solution to a reference.

Task families follow the METR Task Standard. An agent works in an environment that has neither the family's code nor its
protected data; whenever it asks for a score, what it has so far is copied out and scored in an environment of its own.
`re_bench` is METR's families, `re_bench_demo` two small ones of ours that run on any machine.
"""
