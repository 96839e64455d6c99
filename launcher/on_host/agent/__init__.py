"""The program beside the workers of one host.

It is sent to a plain `python3` (3.9 or later), module by module (`launcher.hosts.transport`), and needs only the
standard library. The launcher talks to it over stdin and stdout in frames (a JSON head, then raw bytes), so that no
value ever appears on a command line.

Two processes guard each other. The *agent* starts the workers, ships their logs, and stops them. Its parent, the
*guard*, only waits: when the agent dies for any reason, the guard kills all that is left. When the guard dies, the
agent stops everything and exits. Both are subreapers (prctl(2)), so a worker's child stays below them after setsid,
nohup or a double fork. PR_SET_PDEATHSIG kills each worker with the agent, in case both are killed at once.
"""
