"""Networks for images."""

from __future__ import annotations

from itertools import pairwise

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional as f  # pyright: ignore[reportMissingImports]

from bench.analytical_models import Case


def cases() -> dict[str, Case]:
    def images(side: int, classes: int = 1000):
        def sample(batch: int, device: str) -> tuple[Tensor, Tensor]:
            return (torch.randn(batch, 3, side, side, device=device), torch.randint(classes, (batch,), device=device))

        return sample

    def masks(batch: int, device: str) -> tuple[Tensor, Tensor]:
        return (torch.randn(batch, 3, 256, 256, device=device), torch.randint(2, (batch, 256, 256), device=device))

    large = images(224)
    return {
        "plain-cnn": Case(plain_cnn, images(32, 10), (32, 128, 1024), "sgd"),
        "alexnet": Case(alexnet, large, (8, 32, 128), "momentum"),
        "vgg11": Case(lambda: vgg(1, 1, 2, 2, 2), large, (8, 32, 128), "momentum"),
        "vgg16": Case(lambda: vgg(2, 2, 3, 3, 3), large, (8, 32, 128), "momentum"),
        "googlenet": Case(googlenet, large, (8, 32, 128), "momentum"),
        "resnet18": Case(lambda: ResNet(Basic, (2, 2, 2, 2)), large, (8, 32, 128), "momentum"),
        "resnet50": Case(lambda: ResNet(Bottleneck, (3, 4, 6, 3)), large, (8, 32, 128), "momentum"),
        "mobilenet": Case(mobilenet, large, (8, 32, 128), "momentum"),
        "densenet": Case(DenseNet, large, (8, 32, 96), "momentum"),
        "unet": Case(UNet, masks, (4, 16, 48)),
        "vit-b16": Case(ViT, large, (8, 32, 128)),
    }  # fmt: skip


def plain_cnn() -> nn.Module:
    widths = (3, 32, 64, 128)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 256), nn.ReLU(), nn.Linear(256, 10))


def alexnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Flatten(), nn.Dropout(), nn.Linear(256 * 36, 4096), nn.ReLU(inplace=True),
        nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000))  # fmt: skip


def vgg(*depths: int) -> nn.Module:
    """So many 3x3 layers at each size of the image."""
    layers: list[nn.Module] = []
    width = 3
    for after, depth in zip((64, 128, 256, 512, 512), depths, strict=True):
        for _ in range(depth):
            layers += [nn.Conv2d(width, after, 3, padding=1), nn.ReLU(inplace=True)]
            width = after
        layers.append(nn.MaxPool2d(2))
    head = (nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 4096),
            nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000))  # fmt: skip
    return nn.Sequential(*layers, *head)


def conv_norm(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class Inception(nn.Module):
    def __init__(self, cin: int, one: int, before3: int, three: int, before5: int, five: int, pooled: int) -> None:
        super().__init__()
        self.ways = nn.ModuleList((
            conv_norm(cin, one, 1),
            nn.Sequential(conv_norm(cin, before3, 1), conv_norm(before3, three, 3)),
            nn.Sequential(conv_norm(cin, before5, 1), conv_norm(before5, five, 3)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_norm(cin, pooled, 1)),
        ))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([way(x) for way in self.ways], 1)


def googlenet() -> nn.Module:
    return nn.Sequential(
        conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, ceil_mode=True), conv_norm(64, 64, 1), conv_norm(64, 192, 3),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        Inception(480, 192, 96, 208, 16, 48, 64), Inception(512, 160, 112, 224, 24, 64, 64),
        Inception(512, 128, 128, 256, 24, 64, 64), Inception(512, 112, 144, 288, 32, 64, 64),
        Inception(528, 256, 160, 320, 32, 128, 128), nn.MaxPool2d(2, 2, ceil_mode=True),
        Inception(832, 256, 160, 320, 32, 128, 128), Inception(832, 384, 192, 384, 48, 128, 128),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1024, 1000))  # fmt: skip


class Residual(nn.Module):
    """Residual branch, and the projection of the input to the same shape."""

    widen = 1

    def __init__(self, cin: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = self.make(cin, width, stride)
        self.short = None
        if stride > 1 or cin != width * self.widen:
            self.short = nn.Sequential(nn.Conv2d(cin, width * self.widen, 1, stride, bias=False),
                                       nn.BatchNorm2d(width * self.widen))  # fmt: skip

    def make(self, cin: int, width: int, stride: int) -> nn.Module:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        out = self.body(x)
        out += x if self.short is None else self.short(x)
        return f.relu(out, inplace=True)


class Basic(Residual):
    def make(self, cin: int, width: int, stride: int) -> nn.Module:
        return nn.Sequential(conv_norm(cin, width, 3, stride), *conv_norm(width, width, 3)[:2])


class Bottleneck(Residual):
    widen = 4

    def make(self, cin: int, width: int, stride: int) -> nn.Module:
        return nn.Sequential(
            conv_norm(cin, width, 1), conv_norm(width, width, 3, stride), *conv_norm(width, 4 * width, 1)[:2]
        )


class ResNet(nn.Sequential):
    def __init__(self, block: type[Residual], depths: tuple[int, ...]) -> None:
        layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
        cin = 64
        for stage, depth in enumerate(depths):
            for index in range(depth):
                width = 64 << stage
                layers.append(block(cin, width, 2 if stage and not index else 1))
                cin = width * block.widen
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, 1000))


class Inverted(nn.Module):
    """Widened, filtered channel by channel, narrowed."""

    def __init__(self, cin: int, cout: int, stride: int, widen: int) -> None:
        super().__init__()
        middle = cin * widen
        first = [conv_norm(cin, middle, 1)] if widen > 1 else []
        self.body = nn.Sequential(*first, conv_norm(middle, middle, 3, stride, middle), *conv_norm(middle, cout, 1)[:2])
        self.adds = stride == 1 and cin == cout

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 32, 3, 2)]
    cin = 32
    for widen, cout, depth, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                       (6, 160, 3, 2), (6, 320, 1, 1)):  # fmt: skip
        for index in range(depth):
            layers.append(Inverted(cin, cout, stride if not index else 1, widen))
            cin = cout
    return nn.Sequential(*layers, conv_norm(cin, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(1280, 1000))  # fmt: skip


def norm_conv(cin: int, cout: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(cin), nn.ReLU(inplace=True), nn.Conv2d(cin, cout, kernel, padding=kernel // 2, bias=False)
    )


class Dense(nn.Module):
    """Every layer sees all before it."""

    def __init__(self, cin: int, depth: int, growth: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(norm_conv(cin + index * growth, 4 * growth, 1), norm_conv(4 * growth, growth, 3))
            for index in range(depth)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat((x, layer(x)), 1)
        return x


class DenseNet(nn.Sequential):
    def __init__(self) -> None:
        layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
        width = 64
        for index, depth in enumerate((6, 12, 24, 16)):
            layers.append(Dense(width, depth))
            width += 32 * depth
            if index < 3:
                layers += [norm_conv(width, width // 2, 1), nn.AvgPool2d(2)]
                width //= 2
        super().__init__(*layers, nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(width, 1000))  # fmt: skip


class UNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256, 512)) -> None:
        super().__init__()
        self.down = nn.ModuleList(self._double(a, b) for a, b in pairwise((3, *widths)))
        turned = tuple(reversed(widths))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairwise(turned))
        self.up = nn.ModuleList(self._double(2 * b, b) for b in turned[1:])
        self.head = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def _double(cin: int, cout: int) -> nn.Module:
        return nn.Sequential(conv_norm(cin, cout, 3), conv_norm(cout, cout, 3))

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for index, layer in enumerate(self.down):
            x = layer(f.max_pool2d(x, 2) if index else x)
            kept.append(x)
        for widen, layer, early in zip(self.widen, self.up, reversed(kept[:-1]), strict=True):
            x = layer(torch.cat((early, widen(x)), 1))
        return self.head(x)


class ViT(nn.Module):
    def __init__(self, width: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        from bench.analytical_models.sequence import Block

        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, 197, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])
