"""An agent that can do more than run workers: find out about its host and its network, for `launch doctor`.

It is sent in place of the plain one, so that no start pays for it.
"""
