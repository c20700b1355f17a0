"""Containers on a real kubelet get exactly the cards that their pods were bound with, also identical pods at once.

The cards are simulated; the kubelet, containerd and the device plugin protocol are real. *Two containers pinned to
given cards* is Table 2 of the 2020 paper on sharing GPUs among containers: the stock plugin does not know the pins and
uses any card.
"""

from __future__ import annotations

import os

from bench.claims import claim
from tests.kube.placements import agent_on, pairs_on_pinned_cards, place_many, stock_plugin_on, wait_for_devices
from tests.kube.plane import ControlPlane, Settings

NAME = "kubernetes-placements"
SUMMARY = "containers on a real kubelet that have other cards than their pods are pinned to"
SLOW = True
PLACEMENTS = int(os.environ.get("GPUSQUAD_PLACEMENTS", "500"))
RUNS = 30
CARDS, SLOTS = 4, 2


def run() -> list[dict]:
    with ControlPlane(Settings(real_node=True)) as plane:
        wrong = place_many(plane, PLACEMENTS)
        with agent_on(plane, CARDS, SLOTS):
            ours = sum(pairs_on_pinned_cards(plane, RUNS))
        wait_for_devices(plane, 0)
        with stock_plugin_on(plane, CARDS, SLOTS):
            stock = sum(pairs_on_pinned_cards(plane, RUNS))
    return [
        claim(f"wrong cards in {PLACEMENTS} placements", len(wrong), "", "lower", bar=0),
        claim(f"two containers both where they were told, of {RUNS} runs", ours, "", "higher", bar=RUNS,
              baseline=stock),
    ]  # fmt: skip
