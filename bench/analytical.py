"""Offline estimates, made from microbenchmarks alone, compared with measured steps of whole networks.

On a machine with a GPU, ``python -m bench run analytical`` calibrates the card, runs every network and compares;
``python -m bench.analytical --out DIR`` stores the measurements. Without a GPU (PyTorch is still needed, to trace the
networks), ``--recorded`` compares with stored measurements of an H200 and ``--measured FILE --card FILE`` with your
own.

If the speed of the host matters, a network's steps are timed in up to three visits about a minute apart, because that
speed changes from second to second and a job runs for longer. Each visit measures the speed of the host, as
``estimate`` does when it is called on the machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, median

from bench.claims import claim
from gpusquad.predict.analytical.calibrate import calibrate
from gpusquad.predict.analytical.card import CardRoofline
from gpusquad.predict.analytical.estimate import RunEstimate, estimate, find_card
from gpusquad.predict.analytical.measured import MeasuredCard

NAME = "analytical"
SUMMARY = "step time and peak memory of networks from their ops, against the card"
NEEDS_GPU = True
DEADLINE_S = 420.0
TIME_BARS = 0.10, 0.25
"""Median and 90th percentile of the relative error."""
MEMORY_BAR = 0.10
VISITS = 3
TIMES = "step_us", "mean_us", "issue_us", "pace_us"
HOST_MATTERS = 0.6
"""Steps of which the host needs at least this part to issue them are visited again."""


def measure_all(out: Path, deadline_s: float = DEADLINE_S, profiles: bool = False) -> list[dict]:
    """Run every network in every setting, and repeat those that depend on the host's speed, until the time is up.
    Results are written after each network."""
    from bench.analytical_models import zoo
    from bench.analytical_models.measure import measure, measure_again, plan, prepare, profile

    began, rows, seen, cases = time.monotonic(), [], {}, zoo()

    def tried(what: str, call: Callable[[], None]) -> None:
        if time.monotonic() - began < deadline_s:
            try:
                call()
            except Exception:
                print(what)
                traceback.print_exc()

    def first(name: str, precision: str, training: bool, batch: int) -> None:
        case = cases[name]
        rows.append(measure(name, case, precision, training, batch))
        if profiles and batch == case.batches[len(case.batches) // 2] and precision in ("fp32", "amp-bf16"):
            seen[f"{name} {precision} {training} {batch}"] = profile(prepare(case, precision, training, batch))

    def note(title: str) -> None:
        (out / "measured.json").write_text(json.dumps([_over_visits(row) for row in rows]), encoding="utf-8")
        if seen:
            (out / "profiles.json").write_text(json.dumps(seen), encoding="utf-8")
        print(f"{title}: {len(rows)} rows, {time.monotonic() - began:.0f} s", flush=True)

    for name, case in cases.items():
        for how in plan(case):
            tried(f"{name} {how}", lambda name=name, how=how: first(name, *how))
        note(name)
    for visit in range(1, VISITS):
        for row in rows:
            if row["issue_us"] > HOST_MATTERS * row["step_us"]:
                again = row.setdefault("visits", [])
                tried(str(row), lambda row=row, again=again: again.append(measure_again(cases[row["model"]], row)))
        note(f"visit {visit + 1}")
    return [_over_visits(row) for row in rows]


def _over_visits(row: dict) -> dict:
    """Use the mean of all visits, which is what a longer job would see."""
    visits = [{name: row[name] for name in TIMES}, *row.get("visits", [])]
    return {**row, **{name: mean(each[name] for each in visits) for name in TIMES}, "visits": visits}


def recorded() -> tuple[list[dict], MeasuredCard]:
    """Rows that were measured on an H200, and that card with the host that they were measured in."""
    folder = Path(__file__).parent / "analytical_models"
    rows, host = (json.loads((folder / f"h200-{name}.json").read_text("utf-8")) for name in ("rows", "host"))
    card = find_card("NVIDIA H200").to_dict()
    card["samples"] |= host.pop("samples")
    return rows, MeasuredCard.from_dict({**card, **host})


def compare(rows: Iterable[dict], card: CardRoofline) -> list[dict]:
    """Return each measured row with its estimate."""
    from torch import device  # pyright: ignore[reportMissingImports]
    from torch.nn.functional import cross_entropy  # pyright: ignore[reportMissingImports]

    from bench.analytical_models import zoo

    cases, done = zoo(), []
    for row in rows:
        case, training = cases[row["model"]], row["training"]
        with device("meta"):
            model, sample = case.build(), case.sample(row["batch"], "meta")
        guess = estimate(
            model,
            sample if training else sample[:-1],
            1,
            precision=row["precision"],
            training=training,
            optimizer=case.optimizer,
            card=card,
            loss=cross_entropy if training else None,
            pace_us=row.get("pace_us"),
        )
        done.append({**row, **_errors(row, guess)})
    return done


def _errors(row: dict, guess: RunEstimate) -> dict:
    # A thread that trained before it in the same process may have left the libraries' buffers behind.
    allocated = row["peak_allocated_bytes"] - row.get("left_bytes", 0)
    return {
        "estimated_us": guess.step_us,
        "device_us": sum(guess.phases_us.values()),
        "host_us": guess.host_us,
        "bound_by": guess.bound_by,
        "error": guess.step_us / row["step_us"] - 1,
        "estimated_bytes": guess.memory.allocated_bytes,
        "memory_error": guess.memory.allocated_bytes / allocated - 1,
        "reserved_error": guess.memory.reserved_bytes / row["peak_reserved_bytes"] - 1,
        "card_error": guess.memory.card_bytes / row["card_used_bytes"] - 1,
    }


def claims(done: Sequence[dict]) -> list[dict]:
    """The bars, over all rows; and where the time is the card's own, where it is the host's."""
    found = [claim("rows", len(done), "", "higher"), *_of_time("error of the step time", done, TIME_BARS)]
    for bound, title in (("card", "where the card is the slower"), ("host", "where the host is the slower")):
        found += _of_time(f"error of the step time {title}", [row for row in done if row["bound_by"] == bound])
    found.append(claim("how much the host's pace changes between equal steps", host_spread(done), "%", "lower"))
    memory, reserved, card = ([abs(row[f"{name}_error"]) for row in done] for name in ("memory", "reserved", "card"))
    within = 100 * sum(each <= MEMORY_BAR for each in memory) / len(memory)
    return [
        *found,
        claim("error of peak memory, median", 100 * median(memory), "%", "lower", bar=100 * MEMORY_BAR),
        claim("error of peak memory, 90th percentile", 100 * quantile(memory, 0.9), "%", "lower", bar=100 * MEMORY_BAR),
        claim("rows with peak memory within 10 %", within, "%", "higher"),
        claim("error of the reserved memory, median", 100 * median(reserved), "%", "lower"),
        claim("error of the card's memory by NVML, median", 100 * median(card), "%", "lower"),
    ]


def _of_time(title: str, done: Sequence[dict], bars: tuple[float | None, float | None] = (None, None)) -> list[dict]:
    errors = [abs(row["error"]) for row in done]
    if not errors:
        return []
    middle, high = (bar and 100 * bar for bar in bars)
    return [
        claim(f"{title}, median ({len(errors)} rows)", 100 * median(errors), "%", "lower", bar=middle),
        claim(f"{title}, 90th percentile", 100 * quantile(errors, 0.9), "%", "lower", bar=high),
    ]


def host_spread(done: Iterable[dict]) -> float:
    """Variation of the host's issue time. Steps of a network at several batch sizes need the same host work: the
    slowest issue time over the fastest, minus one, in percent, as median over networks. No estimate can be closer than
    about half of it."""
    issues: dict[tuple, list[float]] = {}
    for row in done:
        issues.setdefault((row["model"], row["precision"], row["training"]), []).append(row["issue_us"])
    spreads = [max(each) / min(each) - 1 for each in issues.values() if len(each) > 1]
    return 100 * median(spreads) if spreads else 0.0


def quantile(values: Iterable[float], level: float) -> float:
    ordered = sorted(values)
    place = level * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def run() -> list[dict]:
    """Calibrate, run, compare."""
    card = calibrate(lambda line: print(line, flush=True))
    with tempfile.TemporaryDirectory() as folder:
        return claims(compare(measure_all(Path(folder)), card))


def show(done: Iterable[dict]) -> None:
    print(f"{'':32} {'step ms':>9} {'estimate':>9} {'':>7} {'peak MiB':>9} {'estimate':>9}")
    for row in done:
        what = f"{row['model']:11} {row['precision']:8} {'train' if row['training'] else 'infer'} {row['batch']:5}"
        times = f"{row['step_us'] / 1e3:9.2f} {row['estimated_us'] / 1e3:9.2f} {row['error']:+7.1%}"
        sizes = f"{row['peak_allocated_bytes'] / 2**20:9.0f} {row['estimated_bytes'] / 2**20:9.0f}"
        print(f"{what} {times} {sizes} {row['memory_error']:+7.1%} {row['bound_by']}")


def _rows_and_card(asked: argparse.Namespace) -> tuple[list[dict], CardRoofline]:
    if asked.recorded:
        return recorded()
    card = find_card(asked.card) if asked.card else calibrate(lambda line: print(line, flush=True))
    (asked.out / "card.json").write_text(json.dumps(card.to_dict()), encoding="utf-8")
    if asked.measured:
        return json.loads(asked.measured.read_text(encoding="utf-8")), card
    return measure_all(asked.out, asked.deadline_s, asked.profiles), card


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.analytical", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for measurements and comparisons")
    parser.add_argument("--card", type=Path, help="file of a calibrated card, instead of calibrating this one")
    parser.add_argument("--measured", type=Path, help="file of rows measured before, instead of running the networks")
    parser.add_argument("--recorded", action="store_true", help="use rows and card recorded on an H200 instead of both")
    parser.add_argument("--deadline-s", type=float, default=DEADLINE_S)
    parser.add_argument(
        "--profiles", action="store_true", help="also record the time of each op; this slows the host afterwards"
    )
    asked = parser.parse_args(arguments)
    done = compare(*_rows_and_card(asked))
    (asked.out / "compared.json").write_text(json.dumps(done), encoding="utf-8")
    show(done)
    for each in claims(done):
        print(
            f"{each['name']}: {each['value']:.1f} {each['unit']}" + (f" (bar {each['bar']:.0f})" if each["bar"] else "")
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
