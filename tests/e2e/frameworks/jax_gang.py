"""As in docs/guide/frameworks.md: JAX finds the address of the coordinator by itself, and is told the rest."""

import os

import jax

jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
from jax.experimental import multihost_utils  # noqa: E402, only after the initialization

everyone = multihost_utils.process_allgather(jax.numpy.array([10 * jax.process_index() + 1]))
print(f"processes {jax.process_count()} sum {int(everyone.sum())}")
