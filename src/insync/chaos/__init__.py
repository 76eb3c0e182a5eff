"""Faults for a cluster under load, and whether it kept its promises: what `insync chaos` runs.

A `campaign` starts a cluster and a workload, injects one fault after another, and checks the recorded history.
"""
