"""A stand-in for Claude Code as a pod's agent: it reads prompts from its terminal, asks the model, and runs commands.

It does what h2 can see of the real one: hooks at the start, at a prompt, around each tool and at the end of a turn,
sent to the agent's socket; a transcript in its configuration folder; errors of the provider. Of tools it has Bash.
"""
