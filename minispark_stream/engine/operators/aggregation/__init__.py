"""Aggregations: first streaming_aggregation.py, then its tasks, state_store_restore.py and state_store_save.py."""
