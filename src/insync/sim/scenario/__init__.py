"""Scripted scenarios: a simulated cluster driven by hand, one step per line."""
