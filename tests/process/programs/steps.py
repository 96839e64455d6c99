"""Report a step each, then hang: worker 1 reports the last one."""

from __future__ import annotations

import os
import time
from pathlib import Path

from member import CONFIG, OUTPUT, say

reports = Path(os.environ["LAUNCH_PROGRESS"])
other = Path(OUTPUT, "worker 0 has reported")
if CONFIG["task"]["index"] == 1:
    while not other.exists():
        time.sleep(0.005)
    reports.write_text('{"step": 2}\n')
else:
    reports.write_text('{"step": 1}\n')
    other.touch()
say("hangs")
time.sleep(1000)
