"""Bytes that nobody meant: what decoders, logs and nodes make of damaged input.

A target takes one input, as bytes, and hands it to a part of insync. Its contract: the part returns, or raises one of
the exceptions that it documents, in bounded time and memory. Whatever else comes out is a finding.

    python -m fuzz                      all targets, one after the other
    python -m fuzz --list               what there is
    python -m fuzz --replay FILE        one input again, as it was saved

`make fuzz` runs it for long; a short run with fixed seeds is part of the tests. Inputs come from `mutate`, and where
atheris is installed (see `coverage`) from libFuzzer, which keeps those that reach new lines.
"""
