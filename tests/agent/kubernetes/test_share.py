"""Tests of quantities and of the share of a container."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.kube.quantity import UNIT_NANOS, parse_quantity
from gpusquad.kube.share import container_share
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Share

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", "1"), ("500m", "0.5"), ("8Gi", str(8 * GIB)), ("2k", "2000"), ("1e3", "1000"), ("1.5Ki", "1536"),
     ("2E", "2e18")],
)  # fmt: skip
def test_quantity_is_parsed(text: str, expected: str):
    assert parse_quantity(text, "limits") == Decimal(expected) * UNIT_NANOS


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "one", "1e", "--1", "1e999"])
def test_invalid_quantity_is_rejected(text: str):
    with pytest.raises(Invalid):
        parse_quantity(text, "limits")


@pytest.mark.parametrize(
    ("limits", "annotations", "expected"),
    [
        ({"nvidia.com/gpu": "1"}, {}, None),
        ({"gpusquad.io/gpu-memory": "8Gi"}, {}, Share(8 * GIB, 0)),
        ({"gpusquad.io/gpu-memory": "8Gi", "gpusquad.io/gpu-sm-percent": "25"}, {}, Share(8 * GIB, 250)),
        (
            {"gpusquad.io/gpu-memory-percent": "30", "gpusquad.io/gpu-sm-percent": "50"},
            {},
            Share(0, 500, memory_milli=300),
        ),
        ({"nvidia.com/gpumem": "1024", "nvidia.com/gpucores": "30"}, {}, Share(GIB, 300)),
        ({"nvidia.com/gpumem-percentage": "50"}, {}, Share(memory_milli=500)),
        ({"nvidia.com/gpumem-percentage": "10", "nvidia.com/gpucores": "80"}, {}, Share(0, 800, memory_milli=100)),
        ({}, {"gpu-fraction": "0.5"}, Share(0, 500)),
        ({}, {"gpu-fraction": "0.0001"}, Share(0, 1, memory_milli=1)),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "0"}, {"gpu-fraction": "0.5"}, Share(0, 500)),
        ({"gpusquad.io/gpu-sm-percent": "25"}, {"gpu-fraction": "", "gpu-memory": " "}, Share(0, 250)),
        ({"gpusquad.io/gpu-memory": "0", "nvidia.com/gpumem": "1024"}, {}, Share(GIB, 0)),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpu.shared": "0"}, {}, None),
        ({}, {"gpu-fraction": "1"}, None),
        ({"nvidia.com/gpumem-percentage": "100", "nvidia.com/gpucores": "20"}, {}, None),
        ({}, {"gpu-memory": "2048"}, Share(2 * GIB, 0)),
        ({"nvidia.com/gpucores": "100"}, {}, Share(0, 1000)),
        ({"nvidia.com/gpu.shared": "1"}, {"gpu-fraction": "1"}, Share(0, 1000)),
        ({"nvidia.com/gpu.shared": "1"}, {}, Share(0, 1)),
        ({"nvidia.com/gpu.shared": "1", "nvidia.com/gpumem": "1024"}, {}, Share(GIB, 0)),
        ({"gpusquad.io/gpu-memory": "8Gi"}, {"gpusquad.io/isolation": "isolated"}, Share(8 * GIB, 0, "isolated")),
        ({"gpusquad.io/gpu-memory": "8Gi"}, {"gpusquad.io/isolation": " shared"}, Share(8 * GIB, 0, "shared")),
        ({}, {"gpusquad.io/isolation": "isolated"}, None),
    ],
)
def test_share_is_read_from_limits_and_annotations(
    limits: dict[str, str], annotations: dict[str, str], expected: Share | None
):
    assert container_share(limits, annotations) == expected


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({"nvidia.com/gpucores": "400"}, {}),
        ({"gpusquad.io/gpu-sm-percent": "500m"}, {}),
        ({"nvidia.com/gpumem": "1024", "nvidia.com/gpumem-percentage": "50"}, {}),
        ({"gpusquad.io/gpu-memory": "8Gi", "nvidia.com/gpucores": "50"}, {}),
        ({"gpusquad.io/gpu-memory": "8Gi"}, {"gpu-fraction": "0.5"}),
        ({}, {"gpu-fraction": "0.5", "gpu-memory": "2048"}),
        ({}, {"gpu-fraction": "1.5"}),
        ({}, {"gpu-fraction": "5e-1"}),
        ({}, {"gpu-memory": "2Gi"}),
    ],
)
def test_container_share_is_refused_when_the_scheduler_refuses_it(limits: dict[str, str], annotations: dict[str, str]):
    with pytest.raises(Invalid):
        container_share(limits, annotations)


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "1"}, {"gpusquad.io/gpu-memory": "8Gi"}])
def test_invalid_isolation_is_rejected_with_a_cure(limits: dict[str, str]):
    with pytest.raises(Invalid) as error:
        container_share(limits, {"gpusquad.io/isolation": "alone"})
    assert "gpusquad.io/isolation" in error.value.field
    assert error.value.cure == 'write "shared" or "isolated"'


@given(st.integers(1, 99), st.integers(1, 100))
def test_percents_are_exact(memory: int, sm: int):
    limits = {"gpusquad.io/gpu-memory-percent": str(memory), "gpusquad.io/gpu-sm-percent": str(sm)}
    assert container_share(limits, {}) == Share(0, sm * 10, memory_milli=memory * 10)
