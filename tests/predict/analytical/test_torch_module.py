"""PyTorch modules followed without a GPU and without their weights."""

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.estimate import estimate
from gpusquad.predict.analytical.memory import peak

torch = pytest.importorskip("torch")
nn, f = torch.nn, torch.nn.functional

from gpusquad.predict.analytical.torch_module import on_meta, trace  # noqa: E402 (it needs torch)


def named(graph, phase=None):
    return [op.name for op in graph.ops if op.kernels and phase in (None, op.phase)]


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))


def test_a_step_of_a_small_network():
    graph = trace(mlp(), (torch.zeros(32, 64), torch.zeros(32, dtype=torch.long)), "fp32", True, f.cross_entropy)
    products = [op.shape for op in graph.ops if op.kind == "matmul"]
    assert products == [(1, 32, 128, 64), (1, 32, 16, 128), (1, 32, 128, 16), (1, 16, 128, 32), (1, 128, 64, 32)]
    assert {op.phase for op in graph.ops} == {"forward", "backward"}
    assert (graph.parameters, graph.parameter_tensors, graph.batch) == (64 * 128 + 128 + 128 * 16 + 16, 4, 32)
    assert not graph.unknown


def test_the_model_itself_is_left_alone():
    model = mlp()
    before = [each.clone() for each in model.parameters()]
    trace(model, torch.zeros(4, 64), "amp-bf16", True)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(each.grad is None for each in model.parameters())


def test_shared_weights_stay_shared():
    model = nn.ModuleList((nn.Linear(8, 8), nn.Linear(8, 8)))
    model[1].weight = model[0].weight
    ghost = on_meta(model)
    assert ghost[0].weight is ghost[1].weight
    assert ghost[0].weight.device.type == "meta"


def test_inference_keeps_nothing_for_backward():
    deep = nn.Sequential(*(nn.ReLU() for _ in range(10)))
    given = torch.empty(1 << 20, device="meta")
    graph = trace(deep, given, "fp32", False)
    assert peak(graph.events, graph.held).allocated_bytes == 3 * (4 << 20)
    assert named(graph) == ["pointwise"] * 10


def test_training_keeps_what_backward_needs():
    deep = nn.Sequential(*(nn.Sigmoid() for _ in range(10)))
    given = torch.empty(1 << 20, device="meta", requires_grad=True)
    wrapped = nn.Sequential(nn.Linear(1, 1), deep)
    graph = trace(wrapped, given.view(-1, 1), "fp32", True)
    assert peak(graph.events, graph.held).allocated_bytes >= 11 * (4 << 20)


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", "fp32"), ("tf32", "tf32"), ("amp-bf16", "bf16"), ("fp16", "fp16")]
)
def test_precision_is_that_of_the_products(precision, dtype):
    graph = trace(mlp(), torch.zeros(32, 64), precision, True)
    assert {op.dtype for op in graph.ops if op.kind == "matmul"} == {dtype}


def test_autocast_casts_weights_once_and_keeps_softmax_in_floats():
    layer = nn.Linear(64, 64, bias=False)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return torch.softmax(self.layer(self.layer(x)), -1)

    graph = trace(Twice(), torch.zeros(32, 64), "amp-bf16", True)
    forward = named(graph, "forward")
    assert forward.count("cast") == 2  # the input and the weight
    assert "softmax" in forward
    assert graph.parameter_bytes == {"fp32": 4 * 64 * 64}


def test_without_gradients_weights_are_cast_each_time():
    layer = nn.Linear(64, 64, bias=False)
    graph = trace(nn.Sequential(layer, layer), torch.zeros(32, 64), "amp-bf16", False)
    assert named(graph).count("cast") == 3


@pytest.mark.parametrize("precision", ["fp32", "amp-bf16"])
def test_attention_is_one_op_whatever_the_layer_calls(precision):
    layer = nn.MultiheadAttention(64, 4, dropout=0.1, batch_first=True)

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x, x, x, need_weights=False)[0]

    graph = trace(Own(), torch.zeros(2, 16, 64), precision, True)
    assert [op.name for op in graph.ops if op.kind == "attention"] == ["attention.forward", "attention.backward"]
    assert next(op.shape for op in graph.ops if op.kind == "attention") == (8, 16, 16, 16)


def test_a_mask_and_looking_back_are_seen():
    class Own(nn.Module):
        def __init__(self, **how):
            super().__init__()
            self.how = how

        def forward(self, x):
            return f.scaled_dot_product_attention(x, x, x, **self.how)

    given = torch.zeros(2, 4, 16, 32)
    causal = trace(Own(is_causal=True), given, "bf16", False)
    masked = trace(Own(attn_mask=torch.zeros(16, 16, device="meta")), given, "bf16", False)
    assert [op.name for op in causal.ops if op.kind == "attention"] == ["attention.forward.causal"]
    assert [op.name for op in masked.ops if op.kind == "attention"] == ["attention.forward"]


def test_convolutions_norms_and_pools():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten())
    given = torch.zeros(2, 3, 10, 10)
    training, inference = (trace(model, given, "fp32", each) for each in (True, False))
    assert "batch_norm" in named(training)
    assert "batch_norm_eval" in named(inference)
    back = named(training, "backward")
    assert [name for name in back if name.startswith("conv")] == ["conv.wgrad"]
    assert {"max_pool_backward", "batch_norm_backward", "sum_channels"} <= set(back)


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_a_recurrent_layer_is_one_call(kind, gates):
    model = kind(8, 16, num_layers=2, batch_first=True, dropout=0.1)

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = model

        def forward(self, x):
            return self.layers(x)[0]

    graph = trace(Own(), torch.zeros(4, 10, 8), "fp32", True)
    found = [(op.name, op.shape) for op in graph.ops if op.name.startswith("lstm")]
    assert [name for name, _ in found] == ["lstm.forward"] * 2 + ["lstm.backward"] * 2
    assert found[0][1] == (10, 4, 16 * gates, 24)


def test_a_model_may_name_devices_and_make_tensors():
    class Places(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(100, 8)

        def forward(self, index):
            return self.words(index).cuda() + torch.arange(8) + torch.ones(8, device="cuda")

    graph = trace(Places(), torch.zeros(4, 5, dtype=torch.long), "fp32", True)
    assert "embedding_backward" in named(graph, "backward")


def test_a_model_that_looks_at_its_numbers_cannot_be_followed():
    class Looks(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum().item() > 0 else x

    with pytest.raises(Invalid, match="shapes alone"):
        trace(Looks(), torch.zeros(4), "fp32", False)


def test_an_estimate_of_a_module():
    found = estimate(mlp(), (torch.zeros(32, 64), torch.zeros(32, dtype=torch.long)), 100, loss=f.cross_entropy)
    assert found.bound_by == "host"
    assert found.parameters == 64 * 128 + 128 + 128 * 16 + 16
    assert set(found.phases_us) == {"forward", "backward", "optimiser"}
    assert found.flops > 2 * (2 * 32 * 128 * 64 + 3 * 32 * 16 * 128)


def test_calls_of_modules_are_counted_and_nothing_of_it_is_left_behind():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.GELU(), nn.ReLU(inplace=True)))
    graph = trace(model, torch.zeros(2, 4), "fp32", True)
    assert graph.modules == 5
    assert named(graph, "forward")[1:3] == ["gelu", "inplace"]
    assert not nn.modules.module._global_forward_pre_hooks


@pytest.mark.parametrize(("width", "precision", "name"), [
    (64, "fp32", "lstm.forward"), (66, "fp32", "lstm.forward.odd"), (68, "fp32", "lstm.forward"),
    (68, "bf16", "lstm.forward.odd"), (72, "bf16", "lstm.forward"),
])  # fmt: skip
def test_recurrent_layers_whose_rows_tensor_cores_cannot_be_fed_are_odd(width, precision, name):
    graph = trace(nn.LSTM(width, width, batch_first=True), torch.zeros(2, 8, width), precision, False)
    assert [op.name for op in graph.ops if op.name.startswith("lstm")] == [name]
