"""The project directory (`sync` in the cluster file), sent to every host that is reached by ssh.

`sending` has all hosts, an `exchange` one of them; its other half is `launcher.on_host.agent.receiving`.
"""
