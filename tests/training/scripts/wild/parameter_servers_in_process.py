"""A whole cluster inside one process, to try a program with parameter servers out: servers in threads of its own."""

import portpicker
import tensorflow as tf

WORKERS, SERVERS = 2, 1
spec = tf.train.ClusterSpec(
    {
        "worker": [f"localhost:{portpicker.pick_unused_port()}" for _ in range(WORKERS)],
        "ps": [f"localhost:{portpicker.pick_unused_port()}" for _ in range(SERVERS)],
    }
)
config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=WORKERS + 1)
servers = [
    tf.distribute.Server(spec, job_name=job, task_index=index, config=config, protocol="grpc")
    for job in spec.jobs
    for index in range(spec.num_tasks(job))
]
strategy = tf.distribute.ParameterServerStrategy(
    tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)


@tf.function
def step():
    strategy.run(lambda: total.assign_add(2.0))


for _ in range(20):
    coordinator.schedule(step)
coordinator.join()
print(f"{len(servers)} servers in one process counted {float(total):.0f}", flush=True)
