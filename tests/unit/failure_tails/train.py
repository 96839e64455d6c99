"""The program whose ends are recorded here: two workers that all-reduce in a loop until one of them meets its fault."""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator


class InputError(Exception):
    """Raised by the program's own input code."""


def read_record(number: int) -> float:
    try:
        return float({7: "not a number"}.get(number, "1.0"))
    except ValueError as error:
        raise InputError(f"record {number} cannot be read") from error


def raise_while_handling() -> None:
    try:
        read_record(7)
    except InputError:
        raise RuntimeError("cannot report the broken record")  # noqa: B904 - an error while handling another is the point


def raise_group() -> None:
    raise ExceptionGroup("2 shards failed", [OSError("shard 3: no such file"), ValueError("shard 5: bad magic")])


def raise_value_error() -> None:
    raise ValueError("labels out of range: found 11, expected 0 to 9")


def raise_multiline() -> None:
    raise ValueError("shapes do not match:\n  model: (3, 2)\n  batch: (4, 2)\ncheck the batch size")


def raise_unavailable() -> None:
    import tensorflow as tf

    raise tf.errors.UnavailableError(None, None, "feature store 10.0.0.9:5000 does not answer")


def check_numerics() -> None:
    import tensorflow as tf

    tf.debugging.check_numerics(tf.constant([1.0, float("nan")]), "loss is not finite")


def read_dataset() -> None:
    import tensorflow as tf

    def records() -> Iterator[float]:
        for number in range(10):
            yield read_record(number)

    for _ in tf.data.Dataset.from_generator(records, output_signature=tf.TensorSpec((), tf.float32)):
        pass


def map_dataset() -> None:
    import tensorflow as tf

    dataset = tf.data.Dataset.range(10).map(lambda n: tf.py_function(lambda m: read_record(int(m)), [n], tf.float32))
    for _ in dataset:
        pass


def exhaust_memory() -> None:
    bytearray(1 << 60)


def exhaust_tensor_memory() -> None:
    import tensorflow as tf

    tf.zeros([1 << 20, 1 << 20])


def segfault() -> None:
    ctypes.string_at(0)


def segfault_with_faulthandler() -> None:
    import faulthandler

    faulthandler.enable()
    segfault()


def free_twice() -> None:
    libc = ctypes.CDLL(None)
    libc.free(ctypes.c_void_p(id(libc)))


def raise_among_chatter() -> None:
    def chat() -> None:
        while True:
            os.write(2, b"loader 3: prefetched a shard\n")
            time.sleep(1e-5)

    for _ in range(4):
        threading.Thread(target=chat, daemon=True).start()
    time.sleep(0.05)
    raise_value_error()


def log_then_exit() -> None:
    log_and_go_on()
    print("giving up: 100 broken records in a row", file=sys.stderr)
    sys.exit(3)


def log_and_go_on() -> None:
    try:
        read_record(7)
    except InputError:
        logging.exception("skipping a record")


def raise_in_thread() -> None:
    thread = threading.Thread(target=raise_value_error)
    thread.start()
    thread.join()
    sys.exit(4)


def send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


AGAIN = """
import ctypes
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: a thread could do nothing while TensorFlow waits
import tensorflow as tf
tf.distribute.MultiWorkerMirroredStrategy()
"""


def start_again() -> None:
    """A process of its own that inherits TF_CONFIG and starts TensorFlow's server, too; it ends with this one."""
    subprocess.Popen([sys.executable, "-c", AGAIN])


FAULTS: dict[str, Callable[[], object]] = {
    "sigkill": send(signal.SIGKILL),
    "sigstop": send(signal.SIGSTOP),
    "sigint": send(signal.SIGINT),
    "started_again": start_again,
    "value_error": raise_value_error,
    "multiline": raise_multiline,
    "chained_from": lambda: read_record(7),
    "chained_during": raise_while_handling,
    "exception_group": raise_group,
    "own_unavailable": raise_unavailable,
    "nan": check_numerics,
    "generator": read_dataset,
    "py_function": map_dataset,
    "memory_error": exhaust_memory,
    "tensor_memory": exhaust_tensor_memory,
    "segfault": segfault,
    "faulthandler": segfault_with_faulthandler,
    "abort": free_twice,
    "sys_exit_3": lambda: sys.exit(3),
    "exit_message": lambda: sys.exit("no shard left to read"),
    "os_exit_7": lambda: os._exit(7),
    "exit_0": lambda: sys.exit(0),
    "interleaved": raise_among_chatter,
    "logged_then_exit_3": log_then_exit,
    "logged_then_sigkill": lambda: (log_and_go_on(), os.kill(os.getpid(), signal.SIGKILL)),
    "peer_logged": lambda: (time.sleep(0.5), raise_value_error()),
    "thread": raise_in_thread,
    "cleanup_needs_peers": raise_value_error,
    "wrapped_collateral": raise_value_error,
    "none": lambda: None,
}


def run_step(fault: str, step: Callable[[object], object], number: object) -> None:
    try:
        step(number)
    except Exception as error:
        if fault == "wrapped_collateral":
            raise RuntimeError("training failed, see the error above") from error
        raise


def train(fault: str, culprit: bool) -> None:  # noqa: C901 - told top to bottom, as training programs are
    import tensorflow as tf

    if fault == "touched_early" and culprit:
        tf.constant(1.0) + 1.0
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    if fault == "distributed_dataset":
        records = tf.data.Dataset.range(1000).map(
            lambda n: tf.py_function(lambda m: read_record(int(m) if culprit else 1), [n], tf.float32)
        )
        for record in strategy.experimental_distribute_dataset(records.batch(2)):
            strategy.reduce("SUM", strategy.run(lambda batch: tf.reduce_sum(batch), args=(record,)), axis=None)

    def batch(number: tf.Tensor) -> tf.Tensor:
        values = tf.ones([64])
        if not culprit or number < 100:
            return values
        if fault == "graph_nan":
            return tf.debugging.check_numerics(values * float("nan"), "the batch is not finite")
        if fault == "graph_py_function":
            return tf.py_function(raise_value_error, [], tf.float32)
        return values

    @tf.function
    def step(number: tf.Tensor) -> object:
        def replica() -> object:
            values = batch(number)
            values = tf.ones([65]) if fault == "shape_mismatch" and culprit else tf.ensure_shape(values, [64])
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

        return strategy.run(replica)

    for number in range(1_000_000):
        run_step(fault, step, tf.constant(number))
        if number % 50 == 0:
            print(f"step {number} loss 0.{900 - number % 900}", flush=True)
        if fault == "peer_logged" and not culprit and number == 50:
            log_and_go_on()
        if number == 100 and culprit:
            try:
                FAULTS.get(fault, FAULTS["none"])()
            finally:
                if fault == "cleanup_needs_peers":
                    raise tf.errors.UnavailableError(
                        None, None, "Collective ops is aborted by: Socket closed, while the last state was saved"
                    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", required=True)
    parser.add_argument("--culprit", type=int, default=1)
    options = parser.parse_args()
    culprit = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == options.culprit
    if options.fault == "missing_module" and culprit:
        import nonexistent_augmentations  # noqa: F401
    if options.fault == "early_value_error" and culprit:
        raise_value_error()
    train(options.fault, culprit)


if __name__ == "__main__":
    main()
