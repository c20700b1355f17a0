"""``python -m bench.card pairs --minutes 8 --out FILE.jsonl``, and ``table FILE.jsonl`` for its results.

Every bench ends by itself within its minutes and adds to its file block by block. Called again with the same file, it
continues where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.card import cost, mechanism, pair_plan, pairs, slos, training, virtual
from bench.card.check import check
from bench.card.clock import Deadline
from bench.card.kernels import kernels
from bench.card.kernels import shown as shown_kernels
from bench.card.levels import COUPLE, TINY, levels
from bench.card.levels import shown as shown_levels
from bench.card.machine import sitting
from bench.card.naps import naps
from bench.card.naps import shown as shown_naps
from bench.card.options import REPEATS
from bench.card.pair_blocks import Timing
from bench.card.place import Lost, Place
from bench.card.report import report
from bench.card.rows import RowFile, read_all
from gpusquad.model.errors import Invalid

BENCHES = ("pairs", "slos", "training", "virtual", "mechanism", "cost")
CONDITIONS = {"pairs": pair_plan.ALL_CONDITIONS, "mechanism": mechanism.MEANS, "training": training.CONDITIONS}
"""Of those whose conditions can be chosen among."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.verb == "table":
        return _table(options)
    if options.verb in ("naps", "kernels"):
        return _print_result(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers and daemons are let go
    place = Place(
        options.card, options.device, options.groups, options.sms_per_group, options.sms,
        logs=Path(options.logs) if options.logs else None,
    )  # fmt: skip
    if options.verb == "check":
        return _check(place, options.tiny)
    if options.verb == "levels":
        return _levels(place, options)
    deadline = Deadline(options.minutes, options.closing)
    file = RowFile(Path(options.out), [Path(name) for name in options.known])
    head = sitting(options.verb, options.device, options.card)
    file.add(head)
    asked = (place, options.tiny, options.length, options.only, options.repeats)
    runs: dict[str, Callable[[], None]] = {
        "pairs": lambda: pairs.run(file, head, _pair_options(options, place), deadline),
        "slos": lambda: slos.run(file, head, slos.Options(*asked), deadline),
        "training": lambda: training.run(file, head, _training_options(options, asked), deadline),
        "virtual": lambda: virtual.run(file, head, virtual.Options(*asked), deadline),
        "mechanism": lambda: mechanism.run(file, head, _mechanism_options(options, place), deadline),
        "cost": lambda: cost.run(file, head, cost.Options(*asked), deadline),
    }
    try:
        runs[options.verb]()
    except (Invalid, Lost, OSError, KeyboardInterrupt) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _levels(place: Place, options: argparse.Namespace) -> int:
    try:
        found = levels(place, TINY if options.tiny else COUPLE, options.seconds, options.rounds)
    except (Invalid, Lost, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found) if options.json else shown_levels(found))
    return 0


def _check(place: Place, tiny: bool) -> int:
    fine = True
    for found in check(place, tiny):
        print(f"{'ok' if found.ok else 'FAILED':7}{found.what}: {found.words}", flush=True)
        fine = fine and found.ok
    return 0 if fine else 1


def _pair_options(options: argparse.Namespace, place: Place) -> pairs.Options:
    known = pair_plan.TINY_PAIRS if options.tiny else pair_plan.PAIRS
    conditions = _conditions(options.conditions or pair_plan.CONDITIONS, pair_plan.ALL_CONDITIONS)
    timing = Timing(length_s=options.length or Timing().length_s)
    return pairs.Options(
        place, _named(known, options.only), conditions, timing,
        options.percentages or pair_plan.PERCENTAGES, options.stay, min(pairs.START_S, 20 * options.minutes),
    )  # fmt: skip


def _mechanism_options(options: argparse.Namespace, place: Place) -> mechanism.Options:
    conditions = _conditions(options.conditions, tuple(mechanism.MEANS))
    return mechanism.Options(place, options.tiny, options.length, options.only, conditions=conditions)


def _training_options(options: argparse.Namespace, asked: tuple[Any, ...]) -> training.Options:
    return training.Options(*asked, conditions=_known(options.conditions, training.CONDITIONS))


def _known(asked: Sequence[str], known: Iterable[str]) -> Sequence[str]:
    """Return the selected conditions. Raises Invalid if a condition is unknown."""
    names = list(known)
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise Invalid("conditions", f"{unknown[0]!r} is not known", f"choose from {'; '.join(names)}")
    return asked


def _conditions(asked: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """Both solo conditions are always measured, because all results are relative to them."""
    _known(asked, known)
    always = (pair_plan.ALONE, pair_plan.TRAINING_ALONE)
    return [name for name in known if not asked or name in asked or name in always]


def _named(known: Sequence[pair_plan.Pair], asked: Sequence[str]) -> list[pair_plan.Pair]:
    found = pair_plan.named(known, asked)
    if not found:
        names = "; ".join(f"{number} {pair.name}" for number, pair in enumerate(known, 1))
        raise Invalid("pairs", f"none is called {', '.join(asked)}", names)
    return found


def _table(options: argparse.Namespace) -> int:
    rows = read_all(Path(name) for name in options.files)
    text, data = report(rows, Path(options.pictures) if options.pictures else None)
    print(text)
    if options.json:
        Path(options.json).write_text(json.dumps(data, indent=1, default=str), encoding="utf-8")
    return 0


def _print_result(options: argparse.Namespace) -> int:
    """Run a verb that only prints its result."""
    try:
        if options.verb == "naps":
            late = naps(options.seconds)
            print(json.dumps(late) if options.json else shown_naps(late))
        else:
            lengths = kernels(options.programs)
            print(json.dumps(lengths) if options.json else shown_kernels(lengths))
    except (Invalid, Lost) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.card", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("check", "levels", *BENCHES):
        verb = verbs.add_parser(name)
        _add_place(verb)
        if name in BENCHES:
            _add_bench(verb, name)
    raised = verbs.choices["levels"]
    raised.add_argument("--seconds", type=float, default=4.0, help="length of a block in seconds")
    raised.add_argument("--rounds", type=int, default=2)
    raised.add_argument("--json", action="store_true")
    late = verbs.add_parser("naps", help="how late this machine wakes a thread that sleeps")
    late.add_argument("--seconds", type=float, default=10.0)
    late.add_argument("--json", action="store_true")
    lengths = verbs.add_parser("kernels", help="lengths of a program's kernels, and the resulting waits")
    lengths.add_argument("programs", nargs="+", metavar="NAME[:BATCH]")
    lengths.add_argument("--json", action="store_true")
    table = verbs.add_parser("table", help="results of the files, as Markdown")
    table.add_argument("files", nargs="+")
    table.add_argument("--json", default="", help="also write the results as JSON to this file")
    table.add_argument("--pictures", default="", help="folder for curves (SVG); default: none are drawn")
    return parser


def _add_place(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--card", default="0")
    verb.add_argument("--device", default="cuda", help="device; cpu for a rehearsal")
    verb.add_argument("--tiny", action="store_true", help="use tiny models, for a rehearsal")
    verb.add_argument("--groups", type=int, default=15, help="number of SM groups of the card")
    verb.add_argument("--sms-per-group", type=int, default=8)
    verb.add_argument("--sms", type=int, default=132, help="number of SMs of the card")
    verb.add_argument("--logs", default="", help="folder for the output of workers; default: it is not kept")


def _add_bench(verb: argparse.ArgumentParser, name: str) -> None:
    verb.add_argument(
        "--out", required=True, metavar="FILE.jsonl", help="file to which rows are added; never overwritten"
    )
    verb.add_argument(
        "--minutes", type=float, default=8.0, help="time limit of this call, including the end of all processes"
    )
    verb.add_argument(
        "--known", nargs="*", default=[], metavar="FILE.jsonl", help="files of earlier runs, whose rows count too"
    )
    verb.add_argument("--only", type=_words, default=[], help="measure only these: parts of names, or numbers")
    verb.add_argument("--length", type=float, default=None, help="length of a block in seconds, instead of the default")
    verb.add_argument(
        "--repeats", type=int, default=REPEATS, help="runs of each condition of slos, training and virtual"
    )
    verb.add_argument("--closing", type=float, default=15.0, help="seconds reserved for ending all processes")
    if name in CONDITIONS:
        known = "; ".join(CONDITIONS[name]).replace("%", "%%")
        verb.add_argument("--conditions", type=_list, default=[], metavar="A;B", help=known)
    if name in ("pairs", "mechanism"):
        verb.add_argument("--pairs", dest="only", type=_words, help="the same as --only")
    if name == "pairs":
        verb.add_argument("--percentages", type=lambda text: [int(one) for one in _words(text)], default=[])
        verb.add_argument("--stay", type=float, default=4.0, help="minutes with one pair before the next")


def _words(text: str) -> list[str]:
    return _list(text.replace(",", ";"))


def _list(text: str) -> list[str]:
    """By semicolons: some names have commas in them."""
    return [word.strip() for word in text.split(";") if word.strip()]


if __name__ == "__main__":
    sys.exit(main())
