"""Start a control plane for experiments: ``python -m tests.kube --fake-nodes 4``. Ctrl-C stops and removes it."""

from __future__ import annotations

import argparse
import contextlib
import signal

from tests.kube.plane import ControlPlane, Settings

parser = argparse.ArgumentParser(prog="python -m tests.kube", description=__doc__)
parser.add_argument("--fake-nodes", type=int, default=4, metavar="N")
parser.add_argument("--gpus-per-node", type=int, default=8, metavar="N")
parser.add_argument("--scheduler", action="store_true", help="start the default scheduler")
parser.add_argument("--real-node", action="store_true", help="start a kubelet on this machine")
with ControlPlane(Settings(**vars(parser.parse_args()))) as plane, contextlib.suppress(KeyboardInterrupt):
    print(f"ready after {plane.started_s['all']:.1f} s, {sum(plane.resident_bytes.values()) >> 20} MiB of memory")
    print(f"export KUBECONFIG={plane.kubeconfig()}")
    print(f"kubectl is {plane.programs['kubectl']}", flush=True)
    signal.pause()
