"""Mutation testing: errors are made in the decision modules one by one, and tests and the simulator have to notice.

`python -m mutation --help`. Development only; not part of the wheel. The operators are in `insync.sim.mutation`.
"""
