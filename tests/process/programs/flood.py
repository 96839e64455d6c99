"""Write numbered lines as fast as possible, then leave a marker file. `flood.py COUNT [MARKER]`"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from member import TASK

count = int(sys.argv[1])
for start in range(0, count, 1000):
    lines = memoryview(b"".join(b"%s %d\n" % (TASK.encode(), n) for n in range(start, min(count, start + 1000))))
    while lines:
        lines = lines[os.write(1, lines) :]
for marker in sys.argv[2:]:
    Path(f"{marker}-{TASK}").touch()
