"""Fuzz tests: damaged and hostile input for decoders, logs and nodes.

A target takes one input, as bytes, and passes it to a part of insync. Its contract: the part returns, or raises one of
the exceptions that it documents, in bounded time and memory. Anything else is a finding.

    python -m fuzz                      all targets, one after the other
    python -m fuzz --list               the targets
    python -m fuzz --replay FILE        one saved input again

`make fuzz` is a long run; a short one with fixed seeds is part of the tests. Inputs come from `mutate`, and where
atheris is installed (see `coverage`) from libFuzzer, which keeps those that reach new lines.
"""
