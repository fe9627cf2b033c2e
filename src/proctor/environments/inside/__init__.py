"""What runs inside a local environment, as its first process, shown there read-only and run by itself.

Nothing of Proctor, and of Python only modules written in C, is imported here: `socket`, `signal` and `subprocess`
would take three times as long to start as the rest of an environment. The other end is `proctor.environments.channel`.
"""
