"""The programs, and how each is run as a job."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parent / "programs"
WHERE = {"card": {"gpus": 1}, "half": {"share": {"memory": "20GiB", "sm": "40%"}}, "cpu": {"gpus": 0}}
CPUS = 2
"""Of each job, so that the scheduler starts only as many at once as the machine has cores for."""


@dataclass(frozen=True)
class Case:
    """One job. ``world``: processes that the framework must count."""

    framework: str
    name: str
    needs: tuple[str, ...]
    """Packages of the program."""
    command: tuple[str, ...]
    """``python``, ``torchrun`` and ``accelerate`` are those of the programs' environment; ``*.py`` are its programs."""
    count: int = 1
    world: int = 1
    on: str = "card"
    """Where it runs: ``card``, ``half`` (two tasks on one card) or ``cpu``."""


_TORCH, _LIGHTNING = ("torch",), ("torch", "pytorch_lightning|lightning")
_ACCELERATE, _TRANSFORMERS, _DEEPSPEED = ("accelerate",), ("transformers", "accelerate"), ("deepspeed",)
_LIGHTNING_AUTO = ("python", "lightning_module.py", "auto", "auto")
_LIGHTNING_TWO = ("python", "lightning_module.py", "cpu", "2")

CASES = (
    Case("PyTorch DDP", "torchrun", _TORCH, ("torchrun", "ddp.py")),
    Case("PyTorch DDP", "torchrun starts 2 processes", _TORCH,
         ("torchrun", "--nproc-per-node", "2", "ddp.py"), 1, 2, "cpu"),
    Case("PyTorch DDP", "gang of 2, torchrun in each task", _TORCH, ("torchrun", "ddp.py"), 2, 2, "half"),
    Case("PyTorch DDP", "gang of 2, no launcher", _TORCH, ("python", "ddp.py"), 2, 2, "half"),
    Case("Lightning", "alone", _LIGHTNING, _LIGHTNING_AUTO),
    Case("Lightning", "starts 2 processes", _LIGHTNING, _LIGHTNING_TWO, 1, 2, "cpu"),
    Case("Lightning", "gang of 2", _LIGHTNING, _LIGHTNING_AUTO, 2, 2, "half"),
    Case("accelerate", "accelerate launch", _ACCELERATE, ("accelerate", "accelerate_loop.py")),
    Case("accelerate", "python", _ACCELERATE, ("python", "accelerate_loop.py")),
    Case("accelerate", "torchrun starts 2 processes", _ACCELERATE,
         ("torchrun", "--nproc-per-node", "2", "accelerate_loop.py"), 1, 2, "cpu"),
    Case("accelerate", "gang of 2, accelerate launch in each task", _ACCELERATE,
         ("accelerate", "accelerate_loop.py"), 2, 2, "half"),
    Case("accelerate", "gang of 2, no launcher", _ACCELERATE, ("python", "accelerate_loop.py"), 2, 2, "half"),
    Case("Hugging Face Trainer", "alone", _TRANSFORMERS, ("python", "hf_trainer.py")),
    Case("Hugging Face Trainer", "torchrun starts 2 processes", _TRANSFORMERS,
         ("torchrun", "--nproc-per-node", "2", "hf_trainer.py"), 1, 2, "cpu"),
    Case("Hugging Face Trainer", "gang of 2", _TRANSFORMERS, ("python", "hf_trainer.py"), 2, 2, "half"),
    Case("DeepSpeed", "gang of 2", _DEEPSPEED, ("python", "deepspeed_loop.py"), 2, 2, "half"),
    Case("JAX", "alone", ("jax",), ("python", "jax_gather.py")),
    Case("JAX", "gang of 2", ("jax",), ("python", "jax_gather.py"), 2, 2, "cpu"),
)  # fmt: skip


def job_of(case: Case, python: str, limit_s: float) -> dict[str, Any]:
    """The job file."""
    # On a machine with a card, a program without one must not find the card through another way.
    env = {"JAX_PLATFORMS": "cpu"} if case.on == "cpu" and case.framework == "JAX" else {}
    name = f"{case.framework} {case.name}".lower().replace(" ", "-").replace(",", "")
    return {
        "name": name, "command": _command(case.command, python), "count": case.count, "limit": f"{round(limit_s)}s",
        "env": env, "cpu": CPUS / case.count, **WHERE[case.on],
    }  # fmt: skip


def _command(words: Sequence[str], python: str) -> list[str]:
    starts = {
        "python": [python],
        "torchrun": _script(python, "torchrun", "torch.distributed.run"),
        "accelerate": [*_script(python, "accelerate", "accelerate.commands.accelerate_cli"), "launch"],
    }
    rest = [str(PROGRAMS / word) if word.endswith(".py") else word for word in words[1:]]
    return [*starts[words[0]], *rest]


def _script(python: str, name: str, module: str) -> list[str]:
    """As a user starts it, if the script is installed beside the interpreter."""
    beside = shutil.which(name, path=str(Path(python).parent))
    return [beside] if beside else [python, "-m", module]
