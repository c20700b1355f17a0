"""A preemptible job: it saves its state on SIGTERM and continues from the saved state.

checkpoint.py [STEPS [SECONDS_PER_STEP]]
"""

import os
import signal
import sys
import time
from pathlib import Path

try:
    from gpusquad import progress  # reports the progress to gpusquad
except ImportError:
    progress = print

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 600
step_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
saved = Path(os.environ.get("GPUSQUAD_CHECKPOINT_DIR", "."), "steps")


def save() -> None:
    draft = saved.with_suffix(".new")
    draft.write_text(str(step))
    draft.replace(saved)  # a kill before this line leaves the old file intact


stop_requests = []
signal.signal(signal.SIGTERM, lambda *_: stop_requests.append(True))  # the loop saves, between two steps

step = int(saved.read_text()) if saved.exists() else 0
print(f"begins at step {step}")
while step < steps and not stop_requests:
    time.sleep(step_s)  # the work
    step += 1
    progress(step, steps)
    if step % 50 == 0:
        save()
save()
print(f"ends at step {step} of {steps}")
