"""Programs that run inside the environment, next to the tested code. Nothing of Proctor imports them.

They are sent in as text, so they use Python 3.6, the standard library, and (for pytest) the environment's pytest.
"""
