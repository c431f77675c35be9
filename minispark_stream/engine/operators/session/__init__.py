"""Aggregations by session_window: first session_window.py, then its two tasks, which insert and save sessions."""
