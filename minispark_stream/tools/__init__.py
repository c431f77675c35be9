"""What stands around the engine: checkpoints inspected, engines compared, the demo, the doctor, the command line."""
