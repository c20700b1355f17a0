"""Tests for card data: storage, shipped data sheets and lookup by driver name."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.card import CardRoofline, known
from gpusquad.predict.analytical.cards import REACH, SHEETS, Sheet, find_sheet

NAMES = {
    "NVIDIA H200": "NVIDIA H200",
    "NVIDIA H100 80GB HBM3": "NVIDIA H100 SXM",
    "NVIDIA H100 PCIe": "NVIDIA H100 PCIe",
    "NVIDIA H100 NVL": "NVIDIA H100 NVL",
    "NVIDIA A100-SXM4-40GB": "NVIDIA A100 SXM 40GB",
    "A100-SXM4-40GB": "NVIDIA A100 SXM 40GB",
    "NVIDIA A100-SXM4-80GB": "NVIDIA A100 SXM 80GB",
    "NVIDIA A100-PCIE-40GB": "NVIDIA A100 PCIe 40GB",
    "NVIDIA A100 80GB PCIe": "NVIDIA A100 PCIe 80GB",
    "Tesla V100-SXM2-16GB": "NVIDIA V100 SXM 16GB",
    "Tesla V100-PCIE-32GB": "NVIDIA V100 PCIe 32GB",
    "Tesla T4": "NVIDIA T4",
    "Tesla P100-PCIE-16GB": "NVIDIA P100 PCIe",
    "Tesla P100-SXM2-16GB": "NVIDIA P100 SXM",
    "Tesla P4": "NVIDIA P4",
    "NVIDIA L4": "NVIDIA L4",
    "NVIDIA L40": "NVIDIA L40",
    "NVIDIA L40S": "NVIDIA L40S",
    "NVIDIA A10": "NVIDIA A10",
    "NVIDIA GeForce RTX 3090": "NVIDIA GeForce RTX 3090",
    "NVIDIA GeForce RTX 4090": "NVIDIA GeForce RTX 4090",
    "NVIDIA TITAN Xp": "NVIDIA TITAN Xp",
    "AMD_Instinct_MI210": "AMD Instinct MI210",
    "AMD Instinct MI250X / MI250": "AMD Instinct MI250",
}

ceilings = st.floats(1e9, 1e16)


@given(
    st.builds(
        CardRoofline,
        name=st.text(max_size=20),
        memory_bytes=st.integers(1, 10**12),
        sms=st.integers(1, 500),
        bandwidth=ceilings,
        l2_bytes=st.integers(0, 10**9),
        matmul_flops=st.dictionaries(st.sampled_from(("fp32", "bf16", "fp8")), ceilings),
        vector_flops=ceilings,
        launch_us=st.floats(0, 100),
        host_op_us=st.floats(0, 100),
        link_bandwidth=ceilings,
        curves=st.dictionaries(
            st.text(max_size=9),
            st.lists(st.tuples(st.floats(-9, 99), st.floats(0, 1)), max_size=4).map(tuple),
            max_size=3,
        ),
        measured=st.booleans(),
    )
)
def test_card_round_trips_through_json(card: CardRoofline):
    assert CardRoofline.from_dict(json.loads(json.dumps(card.to_dict()))) == card


def test_unknown_fields_are_ignored_and_missing_fields_are_reported():
    plain = SHEETS[0].card().to_dict()
    assert CardRoofline.from_dict(plain | {"colour": "green"}) == SHEETS[0].card()
    del plain["bandwidth"]
    with pytest.raises(Invalid, match="bandwidth"):
        CardRoofline.from_dict(plain)


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_card_is_found_by_its_driver_name(name: str, expected: str):
    card = known(name)
    assert card is not None
    assert card.name == expected


@pytest.mark.parametrize("name", ["", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "Radeon VII",
                                  "NVIDIA A10G"])  # fmt: skip
def test_unknown_card_or_mig_instance_is_not_found(name: str):
    assert known(name) is None


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_shipped_card_is_found_by_name_and_stays_below_its_peaks(sheet: Sheet):
    assert find_sheet(sheet.name) == sheet
    card = sheet.card()
    assert not card.measured
    assert card.bandwidth < sheet.bandwidth_gb * 1e9
    assert card.vector_flops < sheet.fp32 * 1e12
    peaks = {"fp32": sheet.fp32} | dict(sheet.matrix)
    assert set(card.matmul_flops) == set(peaks)
    assert all(0 < card.matmul_flops[dtype] < peak * 1e12 for dtype, peak in peaks.items())


def test_power_limit_slows_only_a_small_card():
    small, large = find_sheet("NVIDIA L4"), find_sheet("NVIDIA H100 80GB HBM3")
    assert small is not None
    assert large is not None
    assert small.card().vector_flops < replace(small, power_w=300).card().vector_flops
    assert large.card().vector_flops == replace(large, power_w=1000).card().vector_flops


def test_higher_reach_gives_a_faster_card():
    for sheet in SHEETS:
        faster = sheet.card(replace(REACH, memory_ratio=0.9, wide_ratio=0.9, narrow_ratio=0.95, matrix_ratio=0.9))
        assert faster.bandwidth > sheet.card().bandwidth
        assert faster.vector_flops >= sheet.card().vector_flops
