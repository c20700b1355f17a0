"""Twenty-four programs: twelve that misbehave, and twelve that only look like it.

Each is what a user would run. ``S`` seconds of real time are ``S / $SPEED`` seconds of theirs, so that a test can play
in seconds what takes a quarter of an hour by default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PRELUDE = """
import os, sys, time, threading, signal, random
SPEED = float(os.environ.get("SPEED", "1"))
def nap(seconds): time.sleep(seconds / SPEED)
def say(*words, **options): print(*words, flush=True, **options)
def work(seconds):
    end = time.monotonic() + seconds / SPEED
    while time.monotonic() < end: sum(range(10000))
"""


@dataclass(frozen=True, slots=True)
class Program:
    """``rule``: what stops it. ``ends``: how it ends if no hang rule is needed. Neither: it is left alone."""

    name: str
    code: str
    rule: str | None = None
    ends: str | None = None
    job: dict[str, Any] = field(default_factory=dict)


MISBEHAVING = (
    Program("cpu-spin", "say('starting')\nwhile True: pass"),
    Program("repeated-line", "while True:\n say('waiting for the data server'); nap(1)", rule="repeats"),
    Program("busy-repeated-line", "while True:\n say(time.strftime('%H:%M:%S'), 'retrying')\n work(0.2)",
            rule="repeats"),
    Program("repeated-step", "while True:\n say(f'step 5/100 loss {random.random():.4f}'); nap(2)", rule="stuck"),
    Program("nan", "step = 0\nwhile True:\n step += 1; say(f'step {step}/100000 loss nan'); work(2)", rule="nan"),
    Program("deadlocked-threads", """
a, b, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
def take(first, second):
    with first:
        both.wait()
        with second: pass
threads = [threading.Thread(target=take, args=pair) for pair in ((a, b), (b, a))]
say('training')
for thread in threads: thread.start()
for thread in threads: thread.join()
""", rule="silent"),
    Program("stopped-rank", """
say('rank', os.environ['GPUSQUAD_TASK'])
if os.environ['GPUSQUAD_TASK'] == '1': os.kill(os.getpid(), signal.SIGSTOP)
beat = 0
while True: beat += 1; say('waiting for rank 1', beat); nap(5)
""", rule="stopped", job={"count": 2}),
    Program("dataloader", """
import multiprocessing
def load(queue):
    queue.put(1)
    time.sleep(1e9)
batches = multiprocessing.Queue()
multiprocessing.Process(target=load, args=(batches,), daemon=True).start()
while True: say('batch', batches.get())
""", rule="silent"),
    Program("term-ignored", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nbeat = 0\n"
            "while True: beat += 1; say('alive', beat); nap(10)", ends="timed_out", job={"limit": 60}),
    Program("orphan", "import subprocess\nsubprocess.Popen(['sleep', '86400'], start_new_session=True)\nsay('done')",
            ends="succeeded"),
    Program("log-flood", "number = 0\nwhile True:\n number += 1; say(number, 'x' * 1000)", rule="flood"),
    Program("memory-growth", "held = []\nwhile True: held.append(b'x' * 2**24); nap(0.5)", ends="failed",
            job={"memory": "512MiB"}),
)  # fmt: skip
HEALTHY = (
    Program("compile", "say('compiling'); work(800); say('compiled')"),
    Program("long-evaluation", """
for step in range(5): say(f'step {step}/10 loss 0.{9 - step}'); nap(1)
for n in range(900): print(f'\\r{n / 9:.0f}%|###   | {n}/900 [00:10<10:00, 1.0it/s]', end='', flush=True); work(1)
"""),
    Program("quiet-training", "work(1000)"),
    Program("download-bars", """
for name in range(40):
    for part in range(0, 101, 5):
        print(f'\\r{part:3d}% [{"=" * (part // 5):20s}] {part}.0M  4.{random.randint(0, 9)}MB/s', end='', flush=True)
        nap(1.2)
    say()
"""),
    Program("checkpoint", """
say('writing checkpoint')
with open('checkpoint.bin', 'wb') as file:
    end = time.monotonic() + 900 / SPEED
    while time.monotonic() < end:
        file.seek(0)
        for _ in range(32): file.write(os.urandom(2**20))
        file.flush(); os.fsync(file.fileno()); time.sleep(0.2)
"""),
    Program("warm-up", "nap(950); say('ready')"),
    Program("notebook", """
import http.server
http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler).serve_forever()
"""),
    Program("repl", "import pty\npty.spawn([sys.executable, '-i', '-q'])"),
    Program("waits-for-file", "while not os.path.exists('/nowhere/ready'): nap(20)"),
    Program("health-checks", """
import http.server, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); say('GET /health 200', time.strftime('%H:%M:%S'))
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
while True: urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/').read(); nap(5)
"""),
    Program("epochs-without-steps", """
for epoch in range(1, 4):
    for _ in range(300): say(f'Epoch {epoch}/100 loss {random.random():.4f}'); work(1)
"""),
    Program("slow-download", """
import socket
with socket.create_connection(('127.0.0.1', int(os.environ['SLOW_PORT']))) as peer:
    while peer.recv(65536): pass
"""),
)  # fmt: skip
