"""A task that writes a ledger: one line at its start, one at its end. Locks show whether two instances ever overlap."""

import fcntl
import os
import sys
import time


def note(*words: object) -> None:
    line = " ".join(map(str, words)) + "\n"
    descriptor = os.open("ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def hold(name: str) -> None:
    """The kernel releases the lock when this process ends in any way."""
    descriptor = os.open(f"locks/{name}", os.O_WRONLY | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap", *me, name)


me = (os.environ["GPUSQUAD_JOB"], os.environ["GPUSQUAD_ATTEMPT"], os.environ["GPUSQUAD_TASK"])
os.makedirs("locks", exist_ok=True)
hold(f"{me[0]}.{me[2]}")
for card in os.environ["GPUSQUAD_CARDS"].split(","):
    hold(card)
note("start", *me)
time.sleep(float(sys.argv[1]))
note("end", *me)
sys.exit(int(sys.argv[2]) if int(me[1]) == 0 else 0)
