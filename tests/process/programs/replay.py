"""End as a recorded gang ended, in any order: the same words, the same exits. `replay.py RECORDING FIRST SECOND...`"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from member import CONFIG, OUTPUT, TASK

recording = Path(sys.argv[1])
order = sys.argv[2:]
(end,) = [each for each in json.loads((recording / "exits.json").read_text()) if each["task"] == TASK]


def ended(task: str) -> bool:
    pid = Path(OUTPUT, task)
    return pid.exists() and not os.path.exists(f"/proc/{pid.read_text()}")


before = order[: order.index(TASK)]
while not all(map(ended, before)):
    time.sleep(0.005)
os.write(1, (recording / f"worker-{CONFIG['task']['index']}.log").read_bytes())
Path(OUTPUT, f".{TASK}").write_text(str(os.getpid()))
Path(OUTPUT, f".{TASK}").rename(Path(OUTPUT, TASK))
if end["signal"]:
    os.kill(os.getpid(), end["signal"])
os._exit(end["exit_code"])
