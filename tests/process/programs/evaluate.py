"""Evaluates each new checkpoint, as TensorFlow's `SidecarEvaluator` does: looks for one every second, for ever."""

import os
import time
from pathlib import Path

directory = Path(os.environ["LAUNCH_OUTPUT_DIR"])
seen: set[Path] = set()
while True:
    for path in set(directory.rglob("*.index")) - seen:
        path.read_bytes()
        print("evaluated", path.name, flush=True)
        seen.add(path)
    time.sleep(1)
