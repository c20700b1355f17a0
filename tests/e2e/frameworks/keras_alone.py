"""A program for one task. It must not find a trace of a cluster."""

import os

import tensorflow as tf

assert "TF_CONFIG" not in os.environ
assert tf.distribute.MultiWorkerMirroredStrategy().num_replicas_in_sync == 1

features = tf.random.stateless_normal((320, 8), seed=(1, 2))
targets = tf.reduce_sum(features, axis=1, keepdims=True)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
model.fit(features, targets, batch_size=16, epochs=3)
print("trained")
