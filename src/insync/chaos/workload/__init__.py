"""Clients that write to and read from a cluster under test and record everything they see (see `workload`)."""
