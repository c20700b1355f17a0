"""A decoder-only language model: trained, and serving a batch of requests."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from gpusquad.measure.workloads.training import training_step
from gpusquad.measure.workloads.workload import Step, Workload


@dataclass(frozen=True, slots=True)
class _Shape:
    layers: int
    width: int
    heads: int
    tokens: int
    words: int = 32_000


_TRAINED = _Shape(layers=6, width=1024, heads=16, tokens=512)
_SERVED = _Shape(layers=12, width=2048, heads=16, tokens=256)
"""Few and wide layers. Deep and narrow ones are limited by the host that launches their kernels: 30 % apart from one
window to the next on a machine that was otherwise idle.
"""

_IDLE_S = 0.004
"""Idle time of a service between requests, in which it leaves the card to neighbours."""


def _network(torch: Any, shape: _Shape) -> Any:
    nn = torch.nn

    class Decoder(nn.Module):
        """Tokens in, scores of the next token out for each position (only the last if ``last_only``)."""

        def __init__(self, last_only: bool = False) -> None:
            super().__init__()
            self.last_only = last_only
            self.words = nn.Embedding(shape.words, shape.width)
            self.places = nn.Embedding(shape.tokens, shape.width)
            self.blocks = nn.ModuleList(_block(torch, shape) for _ in range(shape.layers))
            self.norm = nn.LayerNorm(shape.width)
            self.scores = nn.Linear(shape.width, shape.words, bias=False)

        def forward(self, words: Any) -> Any:
            hidden = self.words(words) + self.places.weight
            for block in self.blocks:
                hidden = block(hidden)
            scores = self.scores(self.norm(hidden[:, -1:] if self.last_only else hidden))
            return scores.flatten(0, 1)

    return Decoder


def _block(torch: Any, shape: _Shape) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        """Causal attention, then two layers, each with a residual connection."""

        def __init__(self) -> None:
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
            self.asked = nn.Linear(shape.width, 3 * shape.width)
            self.mixed = nn.Linear(shape.width, shape.width)
            self.wide = nn.Linear(shape.width, 4 * shape.width)
            self.back = nn.Linear(4 * shape.width, shape.width)

        def forward(self, inputs: Any) -> Any:
            batch, tokens, width = inputs.shape
            parts = self.asked(self.norm_1(inputs)).view(batch, tokens, 3, shape.heads, width // shape.heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            hidden = inputs + self.mixed(seen.transpose(1, 2).reshape(batch, tokens, width))
            return hidden + self.back(nn.functional.gelu(self.wide(self.norm_2(hidden))))

    return Block()


def build_training(torch: Any, device: str, batch: int) -> Step:
    with torch.device(device):
        model = _network(torch, _TRAINED)()
    words = torch.randint(_TRAINED.words, (batch, _TRAINED.tokens), device=device)
    return training_step(torch, model, words, words.roll(-1, 1).flatten(), device)


def build_inference(torch: Any, device: str, batch: int) -> Step:
    with torch.device(device):
        model = _network(torch, _SERVED)(last_only=True).to(torch.bfloat16).eval()
    words = torch.randint(_SERVED.words, (batch, _SERVED.tokens), device=device)

    def step() -> None:
        with torch.inference_mode():
            model(words)
        if device != "cpu":
            torch.cuda.synchronize()
        time.sleep(_IDLE_S)

    return step


WORKLOADS = (
    Workload("transformer-training", "training a decoder of 6 layers on 512 tokens", build_training, batch=16),
    Workload("transformer-inference", "a batch of 256-token requests through 12 layers", build_inference, batch=12),
)
