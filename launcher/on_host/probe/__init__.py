"""A program that finds out about a host for `launch doctor`, run by the workers' Python and by the agent's own.

Its modules are sent over stdin and need nothing but the standard library of Python 3.9. It answers in lines of JSON,
one for each part as soon as it is known: a part that hangs, on a dead disk for example, keeps back no earlier one.
"""
