"""The daemon of one card: ``python -m gpusquad.gpu.daemon --card 0 --folder /run/gpusquad/0 --policy jct``.

It runs ``squads.loop`` by the machine's clock and answers on a Unix socket in the folder (``squads.control``). Where
there is nothing to divide it sleeps until somebody speaks to it. If it ends, tenants run on; a new one in the same
folder picks them up. A lock keeps a second one out of the folder.
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
"""Where neither the policy nor the one in its stead is there: nobody could share the card without any."""
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
    """``{"own": {"other": 0.3}}``: the part of its speed that the other takes. No file: by their need of SMs."""
    if path is None:
        return TableRates()
    table = _read(path)
    return TableRates({
        (own, other): number(rho, f"coefficients.{own}.{other}", high=0.99)
        for own, row in table.items() if isinstance(row, dict)
        for other, rho in row.items()
    })  # fmt: skip


def keep_facts(path: Path, told: Mapping[int, tuple[GpuClientSpec, int]]) -> None:
    """For a daemon that comes after this one. With each, when it was said, by a clock that all processes share."""
    draft = path.with_suffix(".new")
    kept = {slot: {**plain(facts), _AT: at_us} for slot, (facts, at_us) in told.items()}
    draft.write_text(json.dumps(kept), encoding="utf-8")
    os.replace(draft, path)


def kept_facts(path: Path) -> dict[int, tuple[GpuClientSpec, int]]:
    """What cannot be read is not known: tenants run on with the usual weight."""
    try:
        return {int(slot): _fact(said) for slot, said in _read(path).items()}
    except FileNotFoundError:
        return {}
    except ValueError as error:
        _log.warning("%s: %s", path, error)
        return {}


def _fact(said: object) -> tuple[GpuClientSpec, int]:
    """An older daemon did not say when. After a boot the clock begins anew."""
    now, at_us = now_us(), None
    if isinstance(said, dict):
        at_us = said.pop(_AT, None)
    return facts_from(said, None), now if at_us is None else min(whole(at_us, _AT), now)


def _read(path: Path) -> dict:
    said = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(said, dict):
        raise Invalid(str(path), "is no JSON object")
    return said


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpusquad.gpu.daemon", description="Divides one card among its tenants.")
    parser.add_argument("--card", required=True, help="its name here: for the log")
    parser.add_argument("--uuid", default="", help="what the driver calls it; empty: not known")
    parser.add_argument("--folder", required=True, type=Path, help="of the card, on a tmpfs")
    parser.add_argument("--library", type=Path, help="the one that tenants load; without it: the package's own")
    parser.add_argument("--log", action="store_true", help="into the folder, instead of stderr")
    parser.add_argument("--idle-s", type=float, default=0.0, help="end when not needed for so long; 0: never")
    parser.add_argument("--policy", default="equal")
    parser.add_argument("--otherwise", help="the policy if there is none of that name, of a package that is gone say")
    parser.add_argument("--check", action="store_true", help="only see whether there is such a policy: JSON, as above")
    parser.add_argument("--version", default="", help="of whoever starts it, who asks for it again")
    parser.add_argument("--settings", default="", help="a mark of all these, which it is asked for too")
    parser.add_argument("--groups", type=int, default=15)
    parser.add_argument("--sms-per-group", type=int, default=8)
    parser.add_argument("--sms", type=int, default=0, help="all of the card's; 0: those in groups")
    parser.add_argument("--memory-bytes", type=int, default=0, help="that quotas may add up to; 0: not checked")
    parser.add_argument("--context-bytes", type=int, default=0, help="what a process's first context costs")
    parser.add_argument("--fail-open-ms", type=int, default=1000, help="0: tenants wait for a daemon that ended")
    parser.add_argument("--strangers", choices=RULES, default="report")
    parser.add_argument("--coefficients", type=Path, help="JSON: what tenants cost each other")
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
                print(f"gpusquad.gpu.daemon: another daemon has {options.folder}", file=sys.stderr)
                return TAKEN
            _divide(options)
    except (Invalid, OSError) as error:
        print(f"gpusquad.gpu.daemon: {error}", file=sys.stderr)
        return 2
    return 0


def checked(policy: str) -> dict[str, object]:
    """As the daemon answers."""
    try:
        registry.create("divide", policy)
    except Invalid as error:
        return refusal(error)
    return {"ok": True, "policy": policy}


def _divide(options: argparse.Namespace) -> None:
    if options.otherwise and not checked(options.policy)["ok"]:
        instead = options.otherwise if checked(options.otherwise)["ok"] else LAST_RESORT
        _log.warning("card %s: there is no policy %s: %s instead", options.card, options.policy, instead)
        options.policy = instead
    with watched(options.folder / LOG if options.log else None) as still_here:
        daemon = make(options, still_here)
        os.chdir("/")  # whatever folder it was started in may be taken away
        for number_ in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number_, daemon.stop)
        _log.info("card %s: dividing by %s", options.card, options.policy)
        daemon.run()
    if daemon.was_left:
        _stop_pool(options.folder / "mps")
    _log.info("card %s: ended", options.card)


def _stop_pool(folder: Path) -> None:
    """Whoever started it has not been heard of for as long as the daemon, and nobody is in it."""
    pool = MpsDaemon("", folder)
    if pool.pid() is not None:
        with contextlib.suppress(Invalid, OSError):
            pool.quit()


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Whether this is the only daemon of the folder. The lock goes with the process, however it ends."""
    fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        os.truncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())  # for people
        yield True
    finally:
        os.close(fd)


def _log_to(file: Path | None) -> None:
    """A file never grows beyond its bounds: it is on a tmpfs, and nobody may ever look at it."""
    rotating = logging.handlers.RotatingFileHandler
    handlers = [rotating(file, maxBytes=_LOG_BYTES, backupCount=1)] if file is not None else None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", handlers=handlers)


if __name__ == "__main__":
    sys.exit(main())
