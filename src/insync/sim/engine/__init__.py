"""Simulated time, network, disks and processes: what a node's driver is made of."""
