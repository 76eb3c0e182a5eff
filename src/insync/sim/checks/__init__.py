"""What is checked after every step and at the end of a run."""
