"""Networks for text. Each returns one row of scores per word."""

from __future__ import annotations

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional as f  # pyright: ignore[reportMissingImports]

from bench.analytical_models import Case


def cases() -> dict[str, Case]:
    def words(length: int, vocabulary: int):
        def sample(batch: int, device: str) -> tuple[Tensor, Tensor]:
            given = torch.randint(vocabulary, (batch, length), device=device)
            return given, given.roll(-1, 1).flatten()

        return sample

    return {
        "bert-base": Case(Bert, words(128, 30522), (8, 32, 128)),
        "gpt2-small": Case(Gpt, words(512, 50257), (4, 8, 32)),
        "gpt-medium": Case(lambda: Gpt(50304, 1024, 24, 16), words(1024, 50304), (2, 8)),
        "t-encoder": Case(Encoder, words(256, 16000), (8, 32, 128)),
        "lstm": Case(Lstm, words(128, 10000), (16, 64, 256)),
    }


class Block(nn.Module):
    """Attention and two wide layers with residual connections, normalised before."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = f.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.wide(self.norm2(x))


class Bert(nn.Module):
    """Written as the first ones were: separate projections, attention by products and softmax, normalised after."""

    def __init__(self, vocabulary: int = 30522, width: int = 768, depth: int = 12) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.blocks = nn.Sequential(*(BertBlock(width, width // 64) for _ in range(depth)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, index: Tensor) -> Tensor:
        places = torch.arange(index.shape[1], device=index.device)
        x = self.drop(self.norm(self.words(index) + self.places(places)))
        return self.head(self.blocks(x)).flatten(0, 1)


class BertBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2, self.drop = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(0.1)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (layer(x).view(batch, length, self.heads, 64).transpose(1, 2) for layer in (self.q, self.k, self.v))
        weights = self.drop(torch.softmax(q @ k.transpose(2, 3) / 8.0, -1))
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        x = self.norm1(x + self.drop(self.out(mixed)))
        return self.norm2(x + self.drop(self.narrow(f.gelu(self.wide(x)))))


class Gpt(nn.Module):
    """Output head and word table share one matrix."""

    def __init__(self, vocabulary: int = 50257, width: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.blocks = nn.Sequential(*(Block(width, heads, 0.1, causal=True) for _ in range(depth)))
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, index: Tensor) -> Tensor:
        x = self.words(index) + self.places(torch.arange(index.shape[1], device=index.device))
        return self.head(self.norm(self.blocks(self.drop(x)))).flatten(0, 1)


class Encoder(nn.Module):
    """PyTorch's own encoder layers."""

    def __init__(self, vocabulary: int = 16000, width: int = 512) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 8, 2048, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, index: Tensor) -> Tensor:
        return self.head(self.layers(self.words(index))).flatten(0, 1)


class Lstm(nn.Module):
    def __init__(self, vocabulary: int = 10000, width: int = 650) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.LSTM(width, width, 2, batch_first=True, dropout=0.2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, index: Tensor) -> Tensor:
        return self.head(self.layers(self.words(index))[0]).flatten(0, 1)
