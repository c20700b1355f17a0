"""Job files for tests: minimal, complete and damaged ones."""

from copy import deepcopy

from hypothesis import strategies as st

SIMPLE = {"command": ["python3", "train.py"], "gpus": 1}

FULL = {
    "version": 1, "name": "träin-${lr}", "image": "pytorch/pytorch:2",
    "command": ["python3", "train.py", "--lr", "${lr}"],
    "gpus": 2, "count": 4, "min": 2, "max": 8, "cpu": "500m", "memory": "16GiB", "gpu_model": ["A100", "H100"],
    "gpu_memory": "40GB", "tenant": "vision", "queue": "nightly", "priority": "high", "lane": "batch",
    "app": "resnet", "estimate": "${hours}h", "limit": 7200,
    "slo": {"deadline": "6h", "p99": "20ms", "throughput": 100, "availability": "99.9%"},
    "profile": {"utilisation": 0.5, "memory": "8GB", "bandwidth": "10%", "source": "measured"},
    "expect": {"run": "${hours}h", "run_high": "3h", "memory": "12GiB", "by_gpus": {"1": "${hours}h", "8": 1200}},
    "checkpoint": {"every": "10m", "restart": 30, "preemptible": False, "grace": "1m"},
    "env": {"SEED": "${sweep.index}", "EMPTY": ""}, "secrets": ["WANDB", {"name": "hub-token", "as": "HF_TOKEN"}],
    "workdir": "/data/${hours}", "params": {"hours": 2, "lr": 0.5}, "sweep": {"lr": [0.1, 0.2], "seed": [1, 2, 3]},
    "after": ["prepare", {"job": "other", "on": "any"}], "retries": {"count": 3, "backoff": "1m", "on": ["lost"]},
    "notify": ["succeeded", "failed"],
}  # fmt: skip

ROLES = {
    "name": "rl", "command": "python3 run.py",
    "roles": [
        {"name": "learner", "gpus": 4, "command": ["python3", "learn.py"], "env": {"A": "1"}},
        {"name": "actor", "count": 16, "cpu": 4, "share": {"memory": "2GiB", "sm": "10%", "isolation": "isolated"}},
    ],
}  # fmt: skip

ODD_TEXTS = (
    "",
    "x",
    "${lr}",
    "$${lr}",
    "${",
    "${nobody}",
    "2h",
    "1GiB",
    "25%",
    "-1",
    "nan",
    "\0",
    "\ud800",
    "ü\u202e",
    "on",
)

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(ODD_TEXTS)
    | st.sampled_from([0, 1, -1, 10**400, 2**53, 0.5])
)  # fmt: skip
names = st.sampled_from([*FULL, *ROLES, *ROLES["roles"][0], "zip", "lr", "job", "on", "as", "sm", "p99", "version"])
json_like = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | st.text(max_size=6), inner, max_size=5),
    max_leaves=12,
)


@st.composite
def damaged_files(draw) -> dict:
    """A valid file in which one to three values were replaced, added or removed."""
    data = deepcopy(draw(st.sampled_from([SIMPLE, FULL, ROLES])))
    for _ in range(draw(st.integers(1, 3))):
        _damage(draw, data)
    return data


def _damage(draw, data: dict) -> None:
    container = data
    while True:
        keys = list(container) if isinstance(container, dict) else list(range(len(container)))
        key = draw(st.sampled_from(keys)) if keys else None
        if key is None or not isinstance(container[key], (dict, list)) or draw(st.booleans()):
            break
        container = container[key]
    change = draw(st.sampled_from(["replace", "add", "remove"]))
    if change == "remove" and key is not None:
        del container[key]
    elif change == "replace" and key is not None:
        container[key] = draw(json_like)
    elif isinstance(container, dict):
        container[draw(names)] = draw(json_like)
    else:
        container.append(draw(json_like))
