"""Real hosts on one machine, for tests: each with its own network, processes, name, disk, users and sshd.

`Rig` brings them up and takes them down, `Host` is one of them, with all that can go wrong with it.
"""

from rig.host import Host
from rig.lab import RigError
from rig.requirements import missing, missing_program
from rig.rig import Rig

__all__ = ["Host", "Rig", "RigError", "missing", "missing_program"]
