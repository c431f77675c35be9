"""Where the rows of a stream come from (Source document).

base.py says what the engine requires of a source; registry.py lists the sources.
"""
