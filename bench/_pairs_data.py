"""Public and own measurements of pairs in one form: workloads with features, and ratios in groups of one run each."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from dataclasses import dataclass
from math import log2
from pathlib import Path

from bench._play import tell
from bench.data import ROOT, data_path
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import MeasurementSeries
from gpusquad.model.interference_data import from_data
from gpusquad.predict.interference.features import BANDWIDTH, MEMORY, STEP, UTILISATION, Traits
from gpusquad.predict.interference.merge import merged
from gpusquad.predict.interference.unseen import Ratio, ratios_of, solo_traits
from gpusquad.sim.colocation import load_throughputs

MEASURED = ROOT / "bench" / "measured"
GAVEL = "gavel-throughputs/simulation_throughputs.json.gz"
LUCID = "lucid-colocation"
BATCH = "batch"


@dataclass(frozen=True)
class PairsData:
    """Data set of pairs. Entries with the same group are the two directions of one co-run, which is one measurement."""

    name: str
    traits: dict[str, Traits]
    ratios: list[Ratio]
    groups: list[int]
    models: dict[str, str]
    """Workload -> the model it is a configuration of."""


def lucid() -> PairsData:
    """RTX 3090, 1,388 pairs. Features are measurements of each configuration alone."""
    with open(data_path(f"{LUCID}/single_data.csv"), encoding="utf-8") as file:
        alone = {_configuration(row, ""): row for row in csv.DictReader(file)}
    traits = {
        name: Traits({UTILISATION: float(row["gpu_util"]) / 100, BANDWIDTH: float(row["gmem_util"]) / 100,
                      MEMORY: log2(float(row["gmem"]))})
        for name, row in alone.items()
    }  # fmt: skip
    text = gzip.decompress(data_path(f"{LUCID}/colocate_info.csv.gz").read_bytes()).decode()
    sides = [(_configuration(row, "1"), _configuration(row, "2"), float(row["speed1"]), float(row["speed2"]))
             for row in csv.DictReader(io.StringIO(text))]  # fmt: skip
    models = {name: row["model"] for name, row in alone.items()}
    return _of_sides("Lucid, RTX 3090", traits, sides, models)


def gavel(gpu: str) -> PairsData:
    """The only features are names, batch sizes and solo throughputs. On the V100 every workload beside itself has
    exactly its solo speed. This is a placeholder, so it is left out."""
    found = load_throughputs(data_path(GAVEL), gpu)
    alone = {name: speed for (name, gpus), speed in found.alone.items() if gpus == 1 and speed > 0}
    traits = {name: _gavel_traits(name, speed) for name, speed in alone.items()}
    sides = [
        (own, other, speed / alone[own], found.packed[other, own] / alone[other])
        for (own, other), speed in found.packed.items()
        if own <= other and speed > 0 and (other, own) in found.packed and (gpu, own) != ("v100", other)
    ]
    return _of_sides(f"Gavel, {gpu}", traits, sides, {name: _family(name) for name in alone})


def measured_tables() -> list[MeasurementSeries]:
    """All stored results of ``gpusquad measure``, one data set for each setting."""
    return merged(one for path in sorted(MEASURED.glob("*.json")) for one in _read(path))


def of_measured(measured: MeasurementSeries) -> PairsData:
    ratios = ratios_of(measured)
    numbers: dict[frozenset[str], int] = {}
    groups = [numbers.setdefault(frozenset((one.own, one.other)), len(numbers)) for one in ratios]
    traits = solo_traits(measured)
    limit = measured.setting.memory_bytes
    part = f" with {limit / 1e9:.0f} GB" if limit is not None else ""
    return PairsData(f"{measured.setting.gpu}{part}, {measured.setting.sharing}", traits, ratios, groups,
                     {name: name for name in traits})  # fmt: skip


def _read(path: Path) -> list[MeasurementSeries]:
    """Report and skip a file that is not a measurement."""
    try:
        return [from_data(json.loads(path.read_text(encoding="utf-8")), path.name)]
    except (Invalid, ValueError) as error:
        tell(f"{path.name}: left out: {error}")
        return []


def _of_sides(name: str, traits: dict[str, Traits], sides: list[tuple[str, str, float, float]],
              models: dict[str, str]) -> PairsData:  # fmt: skip
    ratios, groups = [], []
    for group, (own, other, own_ratio, other_ratio) in enumerate(sides):
        if own == other:
            ratios.append(Ratio(own, own, (own_ratio + other_ratio) / 2))
        else:
            ratios += [Ratio(own, other, own_ratio), Ratio(other, own, other_ratio)]
        groups += [group] * (len(ratios) - len(groups))
    return PairsData(name, traits, ratios, groups, models)


def _configuration(row: dict[str, str], side: str) -> str:
    return "/".join(row[f"{column}{side}"] for column in ("model", "dataset", "batchsize", "amp"))


def _gavel_traits(name: str, speed: float) -> Traits:
    batch = re.search(r"batch size (\d+)", name)
    return Traits({STEP: log2(speed), BATCH: log2(int(batch[1]) if batch else 1)}, _family(name))


def _family(name: str) -> str:
    return name.split(" (")[0]
