"""``python -m gpusquad.agent.kubernetes``: the agent of a Kubernetes node."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpusquad.agent.health import WELL_FOR_S
from gpusquad.agent.inventory import Inventory, SourceUnavailable
from gpusquad.agent.kubernetes.agent import PODS_LOGS, SERVER_TOKEN, AgentSettings, NodeAgent
from gpusquad.agent.kubernetes.api import KubeApi, from_kubeconfig, in_cluster
from gpusquad.agent.kubernetes.registration import PLUGINS
from gpusquad.agent.kubernetes.sharing_settings import FOLDER, MODES, OLD_MODES, Mode, SharingSettings
from gpusquad.agent.kubernetes.slots import MAX_SLOTS
from gpusquad.agent.nvml import NvmlInventory
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.agent.virtual import divided
from gpusquad.gpu.attach.settings import checked_context_bytes, checked_fail_open_ms
from gpusquad.gpu.daemon.unmanaged import RULES
from gpusquad.kube.names import GPU
from gpusquad.model.errors import Invalid

_PLAIN = {*vars(logging.makeLogRecord({})), "message", "asctime"}
_log = logging.getLogger("gpusquad.agent.kubernetes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: stopped. 1: the cards cannot be read; restart. 2: invalid setting."""
    options = _parser().parse_args(arguments)
    _log_json()
    try:
        api = KubeApi(from_kubeconfig(options.kubeconfig) if options.kubeconfig else in_cluster())
        agent = NodeAgent(_settings(options), _inventory(options), api)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        agent.run()
    except SourceUnavailable as error:
        _log.error("%s", error)
        return 1
    except Invalid as error:
        _log.error("%s", error)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpusquad.agent.kubernetes", description="Serves the GPUs of a node to pods.")
    parser.add_argument("--node", required=True, metavar="NAME", help="name of this node in the cluster")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default: the pod's service account")
    parser.add_argument("--simulate", type=int, metavar="N", help="simulate N cards")
    parser.add_argument("--virtual", type=int, default=1, metavar="N", help="divide each card into N virtual cards (1)")
    parser.add_argument(
        "--slots", type=_slots, default=1, metavar="N", help="device slots per card: containers that may share it (1)"
    )
    parser.add_argument("--resource", default=GPU, metavar="NAME", help=f"resource that containers request ({GPU})")
    parser.add_argument(
        "--device-nodes", action="store_true", help="add NVIDIA's device files (without the NVIDIA runtime)"
    )
    parser.add_argument(
        "--metrics-port", type=int, metavar="P", help="serve Prometheus metrics at /metrics on this port"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("/var/lib/gpusquad/agent"),
        metavar="DIR",
        help="files of running containers; must be the same path for the agent and the kubelet",
    )
    parser.add_argument(
        "--plugin-folder", type=Path, default=PLUGINS, metavar="DIR", help="the kubelet's device-plugin folder"
    )
    parser.add_argument(
        "--pod-resources",
        type=Path,
        default=AgentSettings.pod_resources,
        metavar="SOCKET",
        help="the kubelet's pod-resources socket; it is below the kubelet's --root-dir",
    )
    parser.add_argument(
        "--every", type=float, default=1.0, metavar="SECONDS", help="interval between two readings of the cards (1)"
    )
    parser.add_argument(
        "--reconcile-every",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="longest interval between two reconciliations (5)",
    )
    parser.add_argument(
        "--recover-after",
        type=float,
        default=WELL_FOR_S,
        metavar="SECONDS",
        help="time for which a failed card must work before it is used again",
    )
    parser.add_argument(
        "--server",
        type=_url,
        default="",
        metavar="URL",
        help="address of the service to report cards and runs to; default: no reports",
    )
    parser.add_argument(
        "--server-authority",
        default="",
        metavar="FILE",
        help="certificate authority of the service; default: those that the system trusts",
    )
    parser.add_argument("--server-token", type=Path, default=SERVER_TOKEN, metavar="FILE", help="token for the service")
    parser.add_argument(
        "--report-every",
        type=float,
        default=AgentSettings.report_every_s,
        metavar="SECONDS",
        help="interval between two reports, as configured in the service",
    )
    parser.add_argument(
        "--quiet-after",
        type=float,
        default=AgentSettings.quiet_after_s,
        metavar="SECONDS",
        help="look closer at runs that have printed nothing new for this long",
    )
    parser.add_argument(
        "--pod-logs",
        type=_folder,
        default=PODS_LOGS,
        metavar="DIR",
        help="the kubelet's folder of container logs; empty: do not read logs",
    )
    parser.add_argument(
        "--sharing",
        choices=(*MODES, *OLD_MODES),
        metavar="{" + ",".join(MODES) + "}",
        help="enforce the containers' shares (default), "
        "or pass the limits on without enforcing them (advisory, default for simulated cards)",
    )
    parser.add_argument(
        "--sharing-folder",
        type=Path,
        default=FOLDER,
        metavar="DIR",
        help="shared memory of the cards: a tmpfs, at the same path for the kubelet",
    )
    parser.add_argument(
        "--sharing-policy", default=SharingSettings.policy, metavar="NAME", help="divide policy of shared cards"
    )
    parser.add_argument(
        "--mps", action="store_true", help="run shared containers concurrently (MPS) instead of time-sliced"
    )
    parser.add_argument(
        "--sharing-shm",
        type=Path,
        metavar="DIR",
        help="with --mps: a folder of the node that is the agent's /dev/shm, and becomes that of the containers",
    )
    parser.add_argument(
        "--unmanaged",
        choices=RULES,
        default=SharingSettings.strangers,
        help="rule for unmanaged processes on a shared card: report them (default), refuse new containers on the card, "
        "or share the card with them",
    )
    parser.add_argument("--strangers", choices=RULES, help=argparse.SUPPRESS)  # deprecated name of --unmanaged
    parser.add_argument(
        "--fail-open-ms",
        type=_by(checked_fail_open_ms),
        default=SharingSettings.fail_open_ms,
        metavar="MS",
        help="containers run ungated when a card's daemon is silent for this many milliseconds "
        f"({SharingSettings.fail_open_ms}); 0: they wait for it",
    )
    parser.add_argument(
        "--context-bytes",
        type=_by(checked_context_bytes, str),
        default=SharingSettings.context_bytes,
        metavar="N",
        help="bytes charged to a container's quota for the CUDA context of each process; "
        "auto (default): as measured on its card",
    )
    return parser


def _by(check: Callable[[Any], Any], read: Callable[[str], object] = int) -> Callable[[str], Any]:
    def checked(text: str) -> Any:
        try:
            return check(read(text))
        except Invalid as error:
            raise argparse.ArgumentTypeError(f"{error.problem} ({error.cure})") from None
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None

    return checked


def _sharing(options: argparse.Namespace) -> SharingSettings:
    if options.strangers is not None:
        _log.warning("--strangers is deprecated; use --unmanaged")
    return SharingSettings(
        mode=_mode(options),
        folder=options.sharing_folder.absolute(),
        policy=options.sharing_policy,
        shm=options.sharing_shm,
        has_mps=options.mps,
        strangers=options.strangers or options.unmanaged,
        fail_open_ms=options.fail_open_ms,
        context_bytes=options.context_bytes,
    )


def _mode(options: argparse.Namespace) -> Mode:
    if options.sharing in OLD_MODES:
        _log.warning("--sharing=%s is deprecated; use --sharing=%s", options.sharing, OLD_MODES[options.sharing])
        return OLD_MODES[options.sharing]
    return options.sharing or ("enforce" if options.simulate is None else "advisory")


def _url(text: str) -> str:
    if text and not (text.startswith(("http://", "https://")) and urllib.parse.urlsplit(text).hostname):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address like http://gpusquad:7070")
    return text


def _folder(text: str) -> Path | None:
    return Path(text) if text else None


def _slots(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MAX_SLOTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_SLOTS}")
    return int(text)


def _settings(options: argparse.Namespace) -> AgentSettings:
    return AgentSettings(
        node=options.node,
        folder=options.folder.absolute(),
        resource=options.resource,
        slots=options.slots,
        plugins=options.plugin_folder,
        pod_resources=options.pod_resources,
        device_nodes=options.device_nodes,
        every_s=options.every,
        reconcile_s=options.reconcile_every,
        well_for_s=options.recover_after,
        metrics_port=options.metrics_port,
        server=options.server,
        server_authority=options.server_authority,
        server_token=options.server_token,
        report_every_s=options.report_every,
        quiet_after_s=options.quiet_after,
        logs=options.pod_logs,
        sharing=_sharing(options),
    )


def _inventory(options: argparse.Namespace) -> Inventory:
    options.folder.mkdir(parents=True, exist_ok=True)
    cards = SimulatedInventory(options.simulate, options.folder) if options.simulate is not None else NvmlInventory()
    return divided(cards, options.virtual)


class _JsonLines(logging.Formatter):
    """One JSON object per line, with the extra attributes of the record as fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        line.update({key: value for key, value in vars(record).items() if key not in _PLAIN})
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _log_json() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # threads may still wait for the kubelet or the API server
