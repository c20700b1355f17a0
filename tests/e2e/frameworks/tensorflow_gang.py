"""As in TensorFlow's guide: the strategy finds the other workers by itself."""

import tensorflow as tf

STEPS = 16

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = tf.Variable(tf.zeros((8, 1)))
features = tf.random.stateless_normal((64, 8), seed=(1, 2))
targets = tf.reduce_sum(features, axis=1, keepdims=True)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
batches = tf.data.Dataset.from_tensor_slices((features, targets)).batch(16).repeat(STEPS // 4).with_options(options)


def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights - y) ** 2)
    gradient = tape.gradient(loss, weights)
    context = tf.distribute.get_replica_context()
    weights.assign_sub(0.1 * context.all_reduce(tf.distribute.ReduceOp.MEAN, gradient))
    return loss


@tf.function
def train(x, y):
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(step, args=(x, y)), axis=None)


for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(batches), 1):
    print(f"step {number}/{STEPS} loss {float(train(x, y)):.4f}")
resolver = strategy.cluster_resolver
print(f"replicas {strategy.num_replicas_in_sync} {resolver.task_type} {resolver.task_id}")
