"""What one host tells `launch doctor`: a program that runs there, by the Python that would run the workers.

Its modules are sent over stdin and need nothing but the standard library of Python 3.9. It talks in lines of JSON, one
for each thing as soon as it is known: what hangs, a dead disk for example, keeps back nothing that came before it.
"""
