"""limit(n), the smallest operator of all: the first to read."""
