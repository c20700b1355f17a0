"""The card daemon: ``python -m gpusquad.gpu.daemon --card 0 --folder /run/gpusquad/0 --policy jct``.

It runs ``squad_loop`` on the machine's clock and answers on a Unix socket in the folder (``control``). With at most one
client it only sends heartbeats. If it ends, clients continue, and a new daemon in the same folder takes them over. A
lock prevents a second daemon in the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import logging
import logging.handlers
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gpusquad import registry
from gpusquad.gpu.daemon.client import GpuClientSpec
from gpusquad.gpu.daemon.control import Control, facts_from, plain, refusal
from gpusquad.gpu.daemon.process import Daemon, now_us
from gpusquad.gpu.daemon.squad_loop import SquadLoop
from gpusquad.gpu.daemon.table_rates import TableRates
from gpusquad.gpu.daemon.unmanaged import RULES
from gpusquad.gpu.daemon.watchdog import watched
from gpusquad.gpu.daemon.wire import LOCK, LOG, SOCKET, TAKEN
from gpusquad.gpu.daemon.wire import ask as ask
from gpusquad.gpu.mps import MpsDaemon
from gpusquad.gpu.region.layout import VERSION
from gpusquad.model.errors import Invalid
from gpusquad.model.squad import ShareableCard
from gpusquad.model.units import number, whole

KEPT = "facts.json"
LAST_RESORT = "equal"
"""Policy if neither the configured one nor its replacement exists."""
_AT = "told_at_us"
_LOG_BYTES = 1 << 20
_log = logging.getLogger(__name__)


def make(options: argparse.Namespace, still_here: Callable[[], object] = lambda: None) -> Daemon:
    from gpusquad.gpu.build import reclaimer
    from gpusquad.gpu.region.card_region import CardRegion

    card = ShareableCard(options.groups, options.sms_per_group, options.sms, options.memory_bytes)
    region = CardRegion(
        options.folder,
        groups=card.groups,
        sms_per_group=card.sms_per_group,
        fail_open_ms=options.fail_open_ms,
        context_bytes=options.context_bytes,
        uuid=options.uuid,
        reclaim=reclaimer(options.library),
    )
    squads = SquadLoop(region, card, options.policy, coefficients(options.coefficients), options.strangers)
    facts = kept_facts(options.folder / KEPT)
    for slot in region.attached:
        told, told_us = facts.get(slot, (GpuClientSpec(f"slot {slot}"), now_us()))
        squads.adopt(slot, told, told_us, now_us())

    def place(slot: int) -> dict[str, str]:
        return {"tenant": str(region.path(slot)), "decisions": str(options.folder / "decisions")}

    about = {
        "card": options.card, "version": options.version, "region": VERSION, "settings": options.settings,
        "pid": os.getpid(), "fail_open_ms": options.fail_open_ms, "context_bytes": options.context_bytes,
    }  # fmt: skip
    control = Control(squads, place, lambda: keep_facts(options.folder / KEPT, squads.told()), about)
    return Daemon(squads, control, options.folder / SOCKET, options.idle_s, still_here)


def coefficients(path: Path | None) -> TableRates:
    """``{"own": {"other": 0.3}}``: fraction of speed lost to the other. Without a file: by SM need."""
    if path is None:
        return TableRates()
    table = _read(path)
    return TableRates({
        (own, other): number(rho, f"coefficients.{own}.{other}", high=0.99)
        for own, row in table.items() if isinstance(row, dict)
        for other, rho in row.items()
    })  # fmt: skip


def keep_facts(path: Path, told: Mapping[int, tuple[GpuClientSpec, int]]) -> None:
    """Save the specs for the next daemon, each with its time on a clock that all processes share."""
    draft = path.with_suffix(".new")
    kept = {slot: {**plain(facts), _AT: at_us} for slot, (facts, at_us) in told.items()}
    draft.write_text(json.dumps(kept), encoding="utf-8")
    os.replace(draft, path)


def kept_facts(path: Path) -> dict[int, tuple[GpuClientSpec, int]]:
    """Saved specs. If the file cannot be read, clients continue with default specs."""
    try:
        return {int(slot): _fact(said) for slot, said in _read(path).items()}
    except FileNotFoundError:
        return {}
    except ValueError as error:
        _log.warning("%s: %s", path, error)
        return {}


def _fact(said: object) -> tuple[GpuClientSpec, int]:
    """An older daemon saved no time. After a boot the clock restarts."""
    now, at_us = now_us(), None
    if isinstance(said, dict):
        at_us = said.pop(_AT, None)
    return facts_from(said, None), now if at_us is None else min(whole(at_us, _AT), now)


def _read(path: Path) -> dict:
    said = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(said, dict):
        raise Invalid(str(path), "is not a JSON object")
    return said


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpusquad.gpu.daemon", description="Divides one card among its GPU clients.")
    parser.add_argument("--card", required=True, help="name of the card, for the log")
    parser.add_argument("--uuid", default="", help="UUID of the card in the driver; empty: unknown")
    parser.add_argument("--folder", required=True, type=Path, help="folder of the card, on a tmpfs")
    parser.add_argument("--library", type=Path, help="shim that clients load; default: that of this package")
    parser.add_argument("--log", action="store_true", help="log to a file in the folder instead of stderr")
    parser.add_argument(
        "--idle-s", type=float, default=0.0, help="seconds without use after which the daemon ends; 0: never"
    )
    parser.add_argument("--policy", default="equal")
    parser.add_argument(
        "--otherwise", help="policy to use if --policy does not exist, for example because its package is gone"
    )
    parser.add_argument("--check", action="store_true", help="only check whether the policy exists, and print JSON")
    parser.add_argument("--version", default="", help="version of the caller, returned by hello")
    parser.add_argument("--settings", default="", help="hash of these options, returned by hello")
    parser.add_argument("--groups", type=int, default=15)
    parser.add_argument("--sms-per-group", type=int, default=8)
    parser.add_argument("--sms", type=int, default=0, help="all SMs of the card; 0: those in groups")
    parser.add_argument("--memory-bytes", type=int, default=0, help="maximum sum of the quotas; 0: not checked")
    parser.add_argument(
        "--context-bytes", type=int, default=0, help="memory charged for the first context of a process"
    )
    parser.add_argument(
        "--fail-open-ms",
        type=int,
        default=1000,
        help="time without a heartbeat after which clients run ungated; 0: they wait",
    )
    parser.add_argument("--strangers", choices=RULES, default="report")
    parser.add_argument("--coefficients", type=Path, help="JSON file with interference coefficients")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = options_of(argv)
    options.folder = options.folder.absolute()
    if options.check:
        print(json.dumps(checked(options.policy)))
        return 0
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        _log_to(options.folder / LOG if options.log else None)
        with alone_in(options.folder) as is_alone:
            if not is_alone:
                print(f"gpusquad.gpu.daemon: another daemon uses {options.folder}", file=sys.stderr)
                return TAKEN
            _divide(options)
    except (Invalid, OSError) as error:
        print(f"gpusquad.gpu.daemon: {error}", file=sys.stderr)
        return 2
    return 0


def checked(policy: str) -> dict[str, object]:
    """Answer of ``--check``, in the form of the control protocol."""
    try:
        registry.create("divide", policy)
    except Invalid as error:
        return refusal(error)
    return {"ok": True, "policy": policy}


def _divide(options: argparse.Namespace) -> None:
    if options.otherwise and not checked(options.policy)["ok"]:
        instead = options.otherwise if checked(options.otherwise)["ok"] else LAST_RESORT
        _log.warning("card %s: there is no divide policy %s; using %s", options.card, options.policy, instead)
        options.policy = instead
    with watched(options.folder / LOG if options.log else None) as still_here:
        daemon = make(options, still_here)
        os.chdir("/")  # the current folder may be removed
        for number_ in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number_, daemon.stop)
        _log.info("card %s: divide policy %s", options.card, options.policy)
        daemon.run()
    if daemon.was_left:
        _stop_pool(options.folder / "mps")
    _log.info("card %s: ended", options.card)


def _stop_pool(folder: Path) -> None:
    """Stop the MPS pool: it has no clients, and no service has used the card for as long as the daemon."""
    pool = MpsDaemon("", folder)
    if pool.pid() is not None:
        with contextlib.suppress(Invalid, OSError):
            pool.quit()


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Whether this is the only daemon of the folder. The lock ends with the process."""
    fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        os.truncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())  # for users
        yield True
    finally:
        os.close(fd)


def _log_to(file: Path | None) -> None:
    """The size of the file is bounded, because it is on a tmpfs."""
    rotating = logging.handlers.RotatingFileHandler
    handlers = [rotating(file, maxBytes=_LOG_BYTES, backupCount=1)] if file is not None else None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", handlers=handlers)


if __name__ == "__main__":
    sys.exit(main())
