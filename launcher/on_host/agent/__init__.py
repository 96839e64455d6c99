"""The program beside the workers of one host.

It is sent to a bare `python3` (3.9 or later), module after module (`launcher.hosts.transport`), and needs nothing but
the standard library. The launcher speaks to it over stdin and stdout in frames (a JSON head, raw bytes after it), so
that no value ever stands on a command line.

Two processes guard each other. The *agent* starts the workers, ships their logs, and stops them. Its parent, the
*guard*, does nothing but wait: when the agent dies, however it dies, the guard kills all that is left. When the guard
dies, the agent does. Both are subreapers (prctl(2)), so a worker's child stays in reach after setsid, nohup or a double
fork; each worker also dies with the agent by PR_SET_PDEATHSIG, should both be killed in one stroke.
"""
