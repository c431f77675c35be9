"""What shows a run: the trace, which records what the engine does, and the view, which draws it."""
