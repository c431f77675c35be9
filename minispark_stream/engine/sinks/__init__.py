"""Where the rows of each batch go (Sink document).

base.py says what the engine asks of a sink; registry.py lists the sinks.
"""
