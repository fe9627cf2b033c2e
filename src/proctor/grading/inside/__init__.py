"""Programs that run inside the room, next to the tested code. Nothing of Proctor imports them.

They are sent in as text, so they hold to Python 3.6, the standard library, and (for pytest) the pytest of the room.
"""
