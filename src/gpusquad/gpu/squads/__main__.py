"""The daemon of one card: ``python -m gpusquad.gpu.squads --card 0 --folder /run/gpusquad/0 --policy jct``.

It runs ``squads.loop`` by the machine's clock and answers on a Unix socket in the folder (``squads.control``). Where
there is nothing to divide it sleeps until somebody speaks to it. If it ends, tenants run on; a new one in the same
folder picks them up.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpusquad.gpu.squads.control import Control, facts_from, plain
from gpusquad.gpu.squads.effects import TableEffects
from gpusquad.gpu.squads.loop import Squads
from gpusquad.gpu.squads.strangers import RULES
from gpusquad.gpu.squads.tenant import TenantFacts
from gpusquad.model.errors import Invalid
from gpusquad.model.squad import CardFacts
from gpusquad.model.units import number

SOCKET = "control.sock"
KEPT = "facts.json"
_LONGEST_LINE = 1 << 20
_log = logging.getLogger(__name__)


class Daemon:
    """The loop, the socket, and the clock."""

    def __init__(self, squads: Squads, control: Control, path: Path) -> None:
        self._squads, self._control, self._path = squads, control, path
        self._selector = selectors.SelectSelector()  # the one that waits for less than a millisecond
        self._heard: dict[socket.socket, bytes] = {}
        self._stopped = False

    def run(self) -> None:
        """Until ``stop``."""
        with contextlib.closing(self._listen()) as server:
            self._selector.register(server, selectors.EVENT_READ)
            try:
                while not self._stopped:
                    rest_us = self._squads.step(now_us())
                    for key, _ in self._selector.select(rest_us / 1e6):
                        self._serve(server, key.fileobj)  # type: ignore[arg-type]
            finally:
                for client in list(self._heard):
                    self._leave(client)
                self._path.unlink(missing_ok=True)

    def stop(self, *_: object) -> None:
        self._stopped = True

    def _listen(self) -> socket.socket:
        self._path.unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        old = os.umask(0o177)  # only this user decides about the card
        try:
            server.bind(str(self._path))
        finally:
            os.umask(old)
        server.listen()
        server.setblocking(False)
        return server

    def _serve(self, server: socket.socket, ready: socket.socket) -> None:
        if ready is server:
            with contextlib.suppress(BlockingIOError):
                client, _ = server.accept()
                client.settimeout(1.0)  # for the answer: who does not read it is left
                self._heard[client] = b""
                self._selector.register(client, selectors.EVENT_READ)
            return
        try:
            data = ready.recv(65536)
            lines, rest = self._lines(self._heard[ready] + data)
            if not data or len(rest) > _LONGEST_LINE:
                self._leave(ready)
                return
            self._heard[ready] = rest
            for line in lines:
                ready.sendall(self._control.answer(line, now_us()).encode() + b"\n")
        except OSError:
            self._leave(ready)

    def _lines(self, data: bytes) -> tuple[list[str], bytes]:
        *lines, rest = data.split(b"\n")
        return [line.decode(errors="replace") for line in lines if line.strip()], rest

    def _leave(self, client: socket.socket) -> None:
        self._selector.unregister(client)
        del self._heard[client]
        client.close()


def now_us() -> int:
    """Of the clock that tenants' processes see as well."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def ask(path: Path, question: Mapping[str, object], within_s: float = 5.0) -> dict:
    """One question to a daemon, and its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(within_s)
        client.connect(str(path))
        client.sendall(json.dumps(question).encode() + b"\n")
        with client.makefile("rb") as answers:
            return json.loads(answers.readline())


def make(options: argparse.Namespace) -> Daemon:
    from gpusquad.gpu.build import reclaimer
    from gpusquad.gpu.region.card_region import CardRegion

    card = CardFacts(options.groups, options.sms_per_group, options.sms, options.memory_bytes, options.priorities)
    region = CardRegion(
        options.folder,
        groups=card.groups,
        sms_per_group=card.sms_per_group,
        fail_open_ms=options.fail_open_ms,
        context_bytes=options.context_bytes,
        reclaim=reclaimer(),
    )
    squads = Squads(region, card, options.policy, coefficients(options.coefficients), options.strangers)
    facts = kept_facts(options.folder / KEPT)
    for slot in region.attached:
        squads.adopt(slot, facts.get(slot, TenantFacts(f"slot {slot}")), now_us())

    def place(slot: int) -> dict[str, str]:
        return {"tenant": str(region.path(slot)), "decisions": str(options.folder / "decisions")}

    control = Control(squads, place, lambda: keep_facts(options.folder / KEPT, squads.tenants()))
    return Daemon(squads, control, options.folder / SOCKET)


def coefficients(path: Path | None) -> TableEffects:
    """``{"own": {"other": 0.3}}``: the part of its speed that the other takes. No file: by their need of SMs."""
    if path is None:
        return TableEffects()
    table = _read(path)
    return TableEffects({
        (own, other): number(rho, f"coefficients.{own}.{other}", high=0.99)
        for own, row in table.items() if isinstance(row, dict)
        for other, rho in row.items()
    })  # fmt: skip


def keep_facts(path: Path, tenants: Mapping[int, TenantFacts]) -> None:
    """For a daemon that comes after this one."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({slot: plain(facts) for slot, facts in tenants.items()}), encoding="utf-8")
    os.replace(draft, path)


def kept_facts(path: Path) -> dict[int, TenantFacts]:
    """What cannot be read is not known: tenants run on with the usual weight."""
    try:
        return {int(slot): facts_from(said, None) for slot, said in _read(path).items()}
    except FileNotFoundError:
        return {}
    except ValueError as error:
        _log.warning("%s: %s", path, error)
        return {}


def _read(path: Path) -> dict:
    said = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(said, dict):
        raise Invalid(str(path), "is no JSON object")
    return said


def options_of(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpusquad.gpu.squads", description="Divides one card among its tenants.")
    parser.add_argument("--card", required=True, help="its index or UUID: for the log")
    parser.add_argument("--folder", required=True, type=Path, help="of the card, on a tmpfs")
    parser.add_argument("--policy", default="equal")
    parser.add_argument("--groups", type=int, default=15)
    parser.add_argument("--sms-per-group", type=int, default=8)
    parser.add_argument("--sms", type=int, default=0, help="all of the card's; 0: those in groups")
    parser.add_argument("--memory-bytes", type=int, default=0, help="that quotas may add up to; 0: not checked")
    parser.add_argument("--context-bytes", type=int, default=0, help="what a process's first context costs")
    parser.add_argument("--fail-open-ms", type=int, default=1000, help="0: tenants wait for a daemon that ended")
    parser.add_argument("--priorities", action="store_true", help="client priorities of MPS are set")
    parser.add_argument("--strangers", choices=RULES, default="report")
    parser.add_argument("--coefficients", type=Path, help="JSON: what tenants cost each other")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = options_of(argv)
    try:
        daemon = make(options)
    except (Invalid, OSError) as error:
        print(f"gpusquad.gpu.squads: {error}", file=sys.stderr)
        return 2
    for number_ in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number_, daemon.stop)
    _log.info("card %s: dividing by %s", options.card, options.policy)
    daemon.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
