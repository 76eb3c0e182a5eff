"""Mutation testing of the protocol: small errors, made by rule in the syntax tree, that tests or seeds must notice.

`insync.sim.mutants` is the list of safeguards with a story each. This package asks what the list does not name.
"""
