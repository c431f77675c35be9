"""What a count, a deduplication, a join and a session over files need: the driver loop, plans, operators, state, logs.

Nothing here imports the extras, the lens or the tools. docs/architecture.md has the reading path.
"""
