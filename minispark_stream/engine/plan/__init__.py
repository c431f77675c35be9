"""What a query means: streams as leaves of a plan, the few nodes of a compiled plan, and what may not run as a stream."""
