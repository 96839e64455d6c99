"""Two workers meet; the last one leaves for good while the chief has yet to part from it. argv: a directory."""

import json
import os
import sys
from pathlib import Path

import tensorflow as tf

from training.keras_fix.parting import gather, part

met = Path(sys.argv[1], "met")
chief = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
if chief:
    os.mkfifo(met)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
gather(strategy, [0])
if not chief:
    met.read_text()  # returns when the chief has met this worker, and closed the FIFO
    os._exit(0)
met.write_text("")
part(strategy)
print("parted", flush=True)
os._exit(0)
