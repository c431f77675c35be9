"""The tools around the engine: they inspect checkpoints, compare engines, test queries, and run the demo and the commands."""
