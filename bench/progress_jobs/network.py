"""A small language model, for the programs that train one."""

from __future__ import annotations

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

WORDS = 8192


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mix = nn.LayerNorm(width), nn.LayerNorm(width)
        self.look = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.look(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mix(self.before_mix(x))


class LanguageModel(nn.Module):
    def __init__(self, layers: int = 8, width: int = 768, heads: int = 12, longest: int = 1024) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(longest, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.last = nn.Linear(width, WORDS)

    def loss(self, tokens: Tensor) -> Tensor:
        """Of guessing every next word."""
        length = tokens.shape[1] - 1
        x = self.words(tokens[:, :-1]) + self.places(torch.arange(length, device=tokens.device))
        guessed = self.last(self.blocks(x))
        return functional.cross_entropy(guessed.reshape(-1, WORDS).float(), tokens[:, 1:].reshape(-1))


def text(batch: int, length: int) -> Tensor:
    return torch.randint(0, WORDS, (batch, length + 1), device="cuda")


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor) -> Tensor:
    """One step."""
    with torch.autocast("cuda", torch.bfloat16):
        loss = model.loss(tokens)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()
