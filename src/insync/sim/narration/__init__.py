"""A run and its partitions as text for people."""
