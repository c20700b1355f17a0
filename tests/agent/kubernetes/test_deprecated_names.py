"""Tests of deprecated names that the agent accepts: the annotation of measured rates, and a sharing mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.agent.kubernetes.__main__ import _parser, _sharing
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.agent.kubernetes.sharing_params import read_sharing_params
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.engines.kubernetes.sharing_annotator import binding_annotations
from gpusquad.kube.names import ANNOTATIONS_VERSION, KNOWN, MEASURED_RATES
from gpusquad.model.known_rates import known_text
from gpusquad.model.sharing_params import SharingParams

RATES = SharingParams(app="vgg16", solo_per_s=12.5, rate_beside={"cnn": 0.5})
OTHER = SharingParams(app="other")


def params_from(annotations: dict[str, str]) -> SharingParams:
    return read_sharing_params(Pod("n", "p", "u", annotations=annotations))[0]


@pytest.mark.parametrize("name", [MEASURED_RATES, KNOWN])
def test_agent_reads_measured_rates_under_both_names(name: str):
    assert params_from({name: known_text(RATES)}) == RATES


def test_agent_prefers_the_new_annotation():
    assert params_from({KNOWN: known_text(OTHER), MEASURED_RATES: known_text(RATES)}) == RATES


@pytest.mark.parametrize("name", [MEASURED_RATES, KNOWN])
@pytest.mark.parametrize("params", [RATES, SharingParams()], ids=["measured", "nothing measured"])
def test_agent_reads_the_rates_of_the_scheduler_and_none_of_the_user(name: str, params: SharingParams):
    by_user = {KNOWN: known_text(OTHER), MEASURED_RATES: known_text(OTHER)}
    written = binding_annotations({"metadata": {"annotations": by_user}}, params, name)
    assert params_from(by_user | written) == params


def test_agent_reports_its_version_of_the_annotations_with_each_card(tmp_path: Path):
    cards = NodeCards(SimulatedInventory(2, tmp_path)).description()
    assert [card["annotations"] for card in cards] == [ANNOTATIONS_VERSION] * 2


@pytest.mark.parametrize(("mode", "warnings"), [("advisory", 0), ("write-down", 1)])
def test_agent_accepts_the_deprecated_sharing_mode_with_a_warning(
    mode: str, warnings: int, caplog: pytest.LogCaptureFixture
):
    assert _sharing(_parser().parse_args(["--node", "n", f"--sharing={mode}"])).mode == "advisory"
    assert caplog.messages == ["--sharing=write-down is deprecated; use --sharing=advisory"] * warnings


def test_sharing_of_simulated_cards_is_advisory_by_default():
    assert _sharing(_parser().parse_args(["--node", "n", "--simulate", "2"])).mode == "advisory"
    assert _sharing(_parser().parse_args(["--node", "n"])).mode == "enforce"
