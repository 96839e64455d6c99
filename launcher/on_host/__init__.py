"""All that runs on hosts: it is sent there, and needs nothing but the standard library of Python 3.9."""
