"""Has a child, and leaves an orphan with a child in a session of their own once the file `under-way` is there.

Each of the four writes its number into the file `pids`.
"""

import os
import time


def stay() -> None:
    """Tell who this is, and stay."""
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(1000)


if not os.fork():
    stay()
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\n")
while not os.path.exists("under-way"):
    time.sleep(0.01)
if not os.fork():
    os.setsid()
    if not os.fork():
        os.fork()
        stay()
    os._exit(0)
time.sleep(1000)
