"""A job that can be stopped for another one and goes on later: it saves when told to end, and begins where it left off.

checkpoint.py [STEPS [SECONDS_A_STEP]]
"""

import os
import signal
import sys
import time
from pathlib import Path

try:
    from gpusquad import progress  # tells the queue how far we are
except ImportError:
    progress = print

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 600
step_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
saved = Path(os.environ.get("GPUSQUAD_CHECKPOINT_DIR", "."), "steps")


def save() -> None:
    beside = saved.with_suffix(".new")
    beside.write_text(str(step))
    beside.replace(saved)  # whoever is killed before this leaves the old one whole


told_to_end = []
signal.signal(signal.SIGTERM, lambda *_: told_to_end.append(True))  # saved by the loop, where the state is whole

step = int(saved.read_text()) if saved.exists() else 0
print(f"begins at step {step}")
while step < steps and not told_to_end:
    time.sleep(step_s)  # the work
    step += 1
    progress(step, steps)
    if step % 50 == 0:
        save()
save()
print(f"ends at step {step} of {steps}")
