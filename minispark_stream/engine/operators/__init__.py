"""The stateful operators. Each has a room; beside the rooms is what all of them share, above all base.py and state_task.py."""
