"""``python -m gpusquad.agent``: started by the server, exchanges JSON lines with it."""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from gpusquad.agent.agent import Agent
from gpusquad.agent.health import WELL_FOR_S
from gpusquad.agent.inventory import Inventory, SourceUnavailable
from gpusquad.agent.no_cards import NoCards
from gpusquad.agent.nvml import NvmlInventory
from gpusquad.agent.quiet_runs import QUIET_S
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.agent.virtual import divided
from gpusquad.model.errors import Invalid
from gpusquad.model.virtual import physical

_PR_SET_PDEATHSIG = 1
_log = logging.getLogger("gpusquad.agent")


def main(arguments: Sequence[str] | None = None) -> int:
    """0: the server closed the connection. 1: the cards cannot be read (any more); start again."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is meant for the server, which then closes our input
    if options.parent is not None and not _die_with(options.parent):
        return 0
    out = _private_stdout()
    try:
        agent = Agent(
            _inventory(options), sys.stdin.buffer, out, options.every, options.recover_after, options.quiet_after
        )
        threading.Thread(target=agent.exit_if_stuck, name="watchdog", daemon=True).start()
        agent.run()
    except (SourceUnavailable, Invalid) as error:
        _log.error("%s", error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpusquad.agent", description="Watches the GPUs and runs of this machine.")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--simulate", type=_count, metavar="N", help="pretend that there are N cards")
    source.add_argument("--nvml", action="store_true", help="NVIDIA cards; fail where there is no driver")
    parser.add_argument("--virtual", type=int, default=1, metavar="N", help="show each card as N smaller ones (1)")
    parser.add_argument("--every", type=_seconds, default=1.0, metavar="SECONDS", help="between two samples")
    parser.add_argument("--home", type=Path, help="the data folder (default: $GPUSQUAD_HOME or ~/.gpusquad)")
    parser.add_argument(
        "--recover-after",
        type=_seconds,
        default=WELL_FOR_S,
        metavar="SECONDS",
        help="how long a card must answer well before it is used again",
    )
    parser.add_argument(
        "--quiet-after",
        type=_seconds,
        default=QUIET_S,
        metavar="SECONDS",
        help="look closer at runs that have printed nothing new for this long",
    )
    parser.add_argument("--expect", default="", metavar="IDS", help="cards that were here before, with commas")
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this process does")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) > 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cards from 0 to 1024")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _inventory(options: argparse.Namespace) -> Inventory:
    return divided(_physical(options), options.virtual)


def _physical(options: argparse.Namespace) -> Inventory:
    """Without a flag: NVIDIA cards if there are any, otherwise a machine without cards."""
    if options.simulate is not None:
        return SimulatedInventory(options.simulate, _home(options))
    try:
        return NvmlInventory(expect=sorted({physical(card) for card in options.expect.split(",") if card}))
    except SourceUnavailable as error:
        if options.nvml:
            raise
        _log.info("no cards: %s", error)
        return NoCards()


def _home(options: argparse.Namespace) -> Path:
    return options.home or Path(os.environ.get("GPUSQUAD_HOME") or Path.home() / ".gpusquad")


def _die_with(parent: int) -> bool:
    """The server ends the agent by closing its input. A stuck agent of a killed server does not read it, hence this
    signal.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent  # it may have died before we asked


def _private_stdout() -> BinaryIO:
    """Only our messages go to the server; other output (of a library) goes to stderr."""
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(ours, "wb")


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread still waits for the server, and Python cannot interrupt its read
