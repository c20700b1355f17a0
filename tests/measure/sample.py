"""A series of measurements with invented but plausible numbers, for pages and tables."""

from __future__ import annotations

from itertools import combinations_with_replacement

from gpusquad.measure.analysis.student import quantile
from gpusquad.model.interference import (
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    Sharing,
    SoloMeasurement,
)

GPU = "Example GPU (invented numbers)"
AT_US = 1_760_000_000_000_000
ALONE = {
    # steps/s, kernel running, memory busy, GB, W
    "cnn": (212.0, 0.93, 0.41, 6.2, 390.0),
    "vgg16": (33.5, 0.99, 0.55, 11.8, 560.0),
    "transformer-training": (18.2, 0.98, 0.48, 21.4, 590.0),
    "transformer-inference": (88.0, 0.71, 0.62, 9.1, 340.0),
    "stream": (1450.0, 0.99, 0.97, 5.3, 410.0),
    "matmul": (310.0, 0.99, 0.12, 4.4, 680.0),
}
_DEMAND = {"cnn": (0.45, 0.35), "vgg16": (0.75, 0.55), "transformer-training": (0.80, 0.48),
           "transformer-inference": (0.40, 0.70), "stream": (0.30, 0.97), "matmul": (0.95, 0.12)}  # fmt: skip
"""Demand of each workload for SMs and for bandwidth."""
_SENSITIVITY = {"cnn": 1.15, "vgg16": 1.0, "transformer-training": 1.05, "transformer-inference": 1.3, "stream": 0.8,
           "matmul": 0.85}  # fmt: skip
"""Factor on the loss of each workload beside neighbours."""
_NOISE = (0.011, -0.016, 0.003, 0.014, -0.012, -0.006, 0.009, -0.013, 0.012, -0.002)
LIMIT_BYTES = 40_000_000_000


def sample(
    driver: str = "600.10", sharing: Sharing = "mps", at_us: int = AT_US, shift: float = 0.0, repeats: int = 5
) -> MeasurementSeries:
    """The sample series. ``shift`` is added to the speed ratio of cnn beside matmul."""
    solos = tuple(_solo(name) for name in ALONE)
    pairs = [
        _co_run((first, second), (1000, 1000), repeats, shift)
        for first, second in combinations_with_replacement(ALONE, 2)
    ]
    extra = [
        _co_run(("cnn", "matmul"), (500, 500), repeats, 0.0),
        _co_run(("vgg16", "stream"), (700, 300), repeats, 0.0),
        _co_run(("cnn", "stream", "matmul"), (1000, 1000, 1000), repeats, 0.0),
    ]
    return MeasurementSeries(MeasurementSetting(GPU, driver, sharing, LIMIT_BYTES), at_us, solos, (*pairs, *extra))


def interval(samples: tuple[float, ...]) -> ConfidenceInterval:
    mean = sum(samples) / len(samples)
    if len(samples) < 2:
        return ConfidenceInterval(mean, mean, mean, 1)
    deviation = (sum((sample - mean) ** 2 for sample in samples) / (len(samples) - 1)) ** 0.5
    half = quantile(len(samples) - 1) * deviation / len(samples) ** 0.5
    return ConfidenceInterval(round(mean, 5), round(mean - half, 5), round(mean + half, 5), len(samples))


def _solo(name: str) -> SoloMeasurement:
    speed, busy, bandwidth, gigabytes, power_w = ALONE[name]
    curve = (
        (250, round(0.25 + 0.6 * (1 - _DEMAND[name][0]), 2)),
        (500, round(1 - 0.5 * _DEMAND[name][0], 2)),
        (1000, 1.0),
    )
    steps = interval(tuple(round(speed * (1 + noise), 4) for noise in _NOISE[:5]))
    return SoloMeasurement(name, steps, curve, busy, bandwidth, round(gigabytes * 1e9), power_w)


def _co_run(names: tuple[str, ...], milli: tuple[int, ...], repeats: int, shift: float) -> CoRun:
    memory = round(sum(ALONE[name][3] for name in names) * 1e9)
    if memory > LIMIT_BYTES:
        return CoRun(names, milli, out_of_memory=(False,) * (len(names) - 1) + (True,))
    samples = tuple(_samples(names, milli, position, repeats, shift) for position in range(len(names)))
    bandwidth = min(0.99, sum(ALONE[name][2] * ratios[0] for name, ratios in zip(names, samples, strict=True)))
    power_w = min(700.0, sum(ALONE[name][4] for name in names) * 0.62)
    return CoRun(
        names, milli, tuple(map(interval, samples)), samples, 0.99, round(bandwidth, 3), memory, round(power_w, 1)
    )


def _samples(
    names: tuple[str, ...], milli: tuple[int, ...], position: int, repeats: int, shift: float
) -> tuple[float, ...]:
    own, loss = _DEMAND[names[position]], 0.0
    for other in (_DEMAND[name] for index, name in enumerate(names) if index != position):
        loss += 0.62 * own[0] * other[0] + 0.55 * own[1] * other[1]
    ratio = max(0.08, 1 - _SENSITIVITY[names[position]] * loss) * (milli[position] / 1000) ** (0.4 * own[0])
    ratio += shift if names == ("cnn", "matmul") and position == 0 and milli[0] == 1000 else 0.0
    noise = [_NOISE[(repeat + 3 * position + len(names[0])) % len(_NOISE)] for repeat in range(repeats)]
    return tuple(round(ratio + value, 5) for value in noise)
