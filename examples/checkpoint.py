"""A job that can be stopped for another one and goes on later: it saves when told to end, and begins where it left off.

checkpoint.py [STEPS [SECONDS_A_STEP]]
"""

import os
import signal
import sys
import time

try:
    from gpusquad import progress  # tells the queue how far we are
except ImportError:
    progress = print

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 600
STEP_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
SAVE_EVERY_S = 5.0
SAVED = os.path.join(os.environ.get("GPUSQUAD_CHECKPOINT_DIR", "."), "steps")


def load() -> int:
    if not os.path.exists(SAVED):
        return 0
    with open(SAVED, encoding="ascii") as file:
        return int(file.read())


def save(step: int) -> None:
    with open(SAVED + ".new", "w", encoding="ascii") as file:
        file.write(str(step))
    os.replace(SAVED + ".new", SAVED)  # whoever is killed here leaves the old one whole


told_to_end = False


def on_term(number: int, frame: object) -> None:
    global told_to_end
    told_to_end = True  # the loop saves at its next step, when the state is whole


signal.signal(signal.SIGTERM, on_term)
first = step = load()
saved_s = time.monotonic()
print(f"begins at step {first}")
while step < STEPS and not told_to_end:
    time.sleep(STEP_S)  # the work
    step += 1
    progress(step, STEPS)
    if time.monotonic() - saved_s >= SAVE_EVERY_S:
        save(step)
        saved_s = time.monotonic()
save(step)
print(f"ends at step {step} of {STEPS}")
