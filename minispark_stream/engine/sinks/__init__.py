"""Where the rows of each batch go (Sink document).

base.py says what the engine requires of a sink; registry.py lists the sinks.
"""
