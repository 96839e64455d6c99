"""A program that finds out about a host for `launch doctor`: what the Python of the workers tells, and what any tells.

Its modules are sent over stdin and need nothing but the standard library of Python 3.9. It talks in lines of JSON, one
for each thing as soon as it is known: what hangs, a dead disk for example, keeps back nothing that came before it.
"""
