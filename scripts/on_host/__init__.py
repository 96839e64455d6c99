"""Programs that are sent to hosts: each file is one, for Python 3.9 and its standard library."""
