"""What counts where neither a cluster file nor the command line says otherwise."""

LOCALHOST = "localhost"
"""The host that is this machine, and needs no ssh: every machine has it."""
CONNECT_TIMEOUT = 10.0
"""Seconds that ssh has to connect."""
LEASE = 15.0
"""Seconds that a host may be silent."""
DEFAULT_COMMAND = ("python", "-P", "-m", "training")
"""`-P`: a folder `training` where the command is typed is the user's own. Without it that is what `-m` finds first."""
RUNS_DIR = "runs"
"""Above the directories of runs on this machine."""
REMOTE_RUNS_DIR = "~/.tf-launch/runs"
"""The same on a host that is reached by ssh."""
PROJECTS = "~/.tf-launch/projects"
"""Above the projects that are sent to such a host."""
