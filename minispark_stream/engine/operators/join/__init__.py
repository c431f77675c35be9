"""Joins of two streams: first symmetric_hash_join_row_by_row.py, then symmetric_hash_join.py and the files that it names."""
