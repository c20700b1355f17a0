"""A program of JAX, alone or in a gang as docs/guide/frameworks.md says."""

import json
import os

import jax

if "JAX_NUM_PROCESSES" in os.environ:
    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
    )
from jax.experimental import multihost_utils

total = float(multihost_utils.process_allgather(jax.numpy.ones(8)).sum())
assert total == 8 * jax.process_count(), total
result = {"world": jax.process_count(), "rank": jax.process_index(), "device": str(jax.local_devices()[0].platform)}
print("RESULT " + json.dumps({**result, "weights": total}), flush=True)
