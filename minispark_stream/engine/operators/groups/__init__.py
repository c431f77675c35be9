"""applyInPandasWithState: first flat_map_groups_with_state.py, then its task, apply_in_pandas_with_state.py."""
