"""Tests for tracing PyTorch modules without a GPU and without weights."""

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.estimate import estimate
from gpusquad.predict.analytical.memory import peak

torch = pytest.importorskip("torch")
nn, f = torch.nn, torch.nn.functional

from gpusquad.predict.analytical.torch_module import on_meta, trace  # noqa: E402 (needs torch)


def op_names(graph, phase=None):
    return [op.name for op in graph.ops if op.kernels and phase in (None, op.phase)]


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))


def test_training_step_of_a_small_network():
    graph = trace(mlp(), (torch.zeros(32, 64), torch.zeros(32, dtype=torch.long)), "fp32", True, f.cross_entropy)
    products = [op.shape for op in graph.ops if op.kind == "matmul"]
    assert products == [(1, 32, 128, 64), (1, 32, 16, 128), (1, 32, 128, 16), (1, 16, 128, 32), (1, 128, 64, 32)]
    assert {op.phase for op in graph.ops} == {"forward", "backward"}
    assert (graph.parameters, graph.parameter_tensors, graph.batch) == (64 * 128 + 128 + 128 * 16 + 16, 4, 32)
    assert not graph.unknown


def test_trace_does_not_change_the_model():
    model = mlp()
    before = [each.clone() for each in model.parameters()]
    trace(model, torch.zeros(4, 64), "amp-bf16", True)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(each.grad is None for each in model.parameters())


def test_shared_weights_stay_shared_on_the_meta_device():
    model = nn.ModuleList((nn.Linear(8, 8), nn.Linear(8, 8)))
    model[1].weight = model[0].weight
    on_meta_device = on_meta(model)
    assert on_meta_device[0].weight is on_meta_device[1].weight
    assert on_meta_device[0].weight.device.type == "meta"


def test_inference_keeps_no_activations():
    deep = nn.Sequential(*(nn.ReLU() for _ in range(10)))
    inputs = torch.empty(1 << 20, device="meta")
    graph = trace(deep, inputs, "fp32", False)
    assert peak(graph.events, graph.held).allocated_bytes == 3 * (4 << 20)
    assert op_names(graph) == ["pointwise"] * 10


def test_training_keeps_the_activations_for_backward():
    deep = nn.Sequential(*(nn.Sigmoid() for _ in range(10)))
    inputs = torch.empty(1 << 20, device="meta", requires_grad=True)
    wrapped = nn.Sequential(nn.Linear(1, 1), deep)
    graph = trace(wrapped, inputs.view(-1, 1), "fp32", True)
    assert peak(graph.events, graph.held).allocated_bytes >= 11 * (4 << 20)


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", "fp32"), ("tf32", "tf32"), ("amp-bf16", "bf16"), ("fp16", "fp16")]
)
def test_precision_is_the_dtype_of_the_products(precision, dtype):
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
    forward = op_names(graph, "forward")
    assert forward.count("cast") == 2  # the input and the weight
    assert "softmax" in forward
    assert graph.parameter_bytes == {"fp32": 4 * 64 * 64}


def test_weights_are_cast_on_every_use_without_gradients():
    layer = nn.Linear(64, 64, bias=False)
    graph = trace(nn.Sequential(layer, layer), torch.zeros(32, 64), "amp-bf16", False)
    assert op_names(graph).count("cast") == 3


@pytest.mark.parametrize("precision", ["fp32", "amp-bf16"])
def test_multihead_attention_is_traced_as_one_op(precision):
    layer = nn.MultiheadAttention(64, 4, dropout=0.1, batch_first=True)

    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x, x, x, need_weights=False)[0]

    graph = trace(Wrapper(), torch.zeros(2, 16, 64), precision, True)
    assert [op.name for op in graph.ops if op.kind == "attention"] == ["attention.forward", "attention.backward"]
    assert next(op.shape for op in graph.ops if op.kind == "attention") == (8, 16, 16, 16)


def test_masked_and_causal_attention_are_distinguished():
    class Attention(nn.Module):
        def __init__(self, **options):
            super().__init__()
            self.options = options

        def forward(self, x):
            return f.scaled_dot_product_attention(x, x, x, **self.options)

    inputs = torch.zeros(2, 4, 16, 32)
    causal = trace(Attention(is_causal=True), inputs, "bf16", False)
    masked = trace(Attention(attn_mask=torch.zeros(16, 16, device="meta")), inputs, "bf16", False)
    assert [op.name for op in causal.ops if op.kind == "attention"] == ["attention.forward.causal"]
    assert [op.name for op in masked.ops if op.kind == "attention"] == ["attention.forward"]


def test_convolutions_norms_and_pools_are_traced():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten())
    inputs = torch.zeros(2, 3, 10, 10)
    training, inference = (trace(model, inputs, "fp32", each) for each in (True, False))
    assert "batch_norm" in op_names(training)
    assert "batch_norm_eval" in op_names(inference)
    back = op_names(training, "backward")
    assert [name for name in back if name.startswith("conv")] == ["conv.wgrad"]
    assert {"max_pool_backward", "batch_norm_backward", "sum_channels"} <= set(back)


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_recurrent_layer_is_traced_as_one_op(kind, gates):
    model = kind(8, 16, num_layers=2, batch_first=True, dropout=0.1)

    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = model

        def forward(self, x):
            return self.layers(x)[0]

    graph = trace(Wrapper(), torch.zeros(4, 10, 8), "fp32", True)
    found = [(op.name, op.shape) for op in graph.ops if op.name.startswith("lstm")]
    assert [name for name, _ in found] == ["lstm.forward"] * 2 + ["lstm.backward"] * 2
    assert found[0][1] == (10, 4, 16 * gates, 24)


def test_model_may_use_devices_and_create_tensors():
    class NamesDevices(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(100, 8)

        def forward(self, index):
            return self.words(index).cuda() + torch.arange(8) + torch.ones(8, device="cuda")

    graph = trace(NamesDevices(), torch.zeros(4, 5, dtype=torch.long), "fp32", True)
    assert "embedding_backward" in op_names(graph, "backward")


def test_model_that_depends_on_tensor_values_is_refused():
    class ReadsValues(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum().item() > 0 else x

    with pytest.raises(Invalid, match="shapes alone"):
        trace(ReadsValues(), torch.zeros(4), "fp32", False)


def test_estimate_of_a_module():
    found = estimate(mlp(), (torch.zeros(32, 64), torch.zeros(32, dtype=torch.long)), 100, loss=f.cross_entropy)
    assert found.bound_by == "host"
    assert found.parameters == 64 * 128 + 128 + 128 * 16 + 16
    assert set(found.phases_us) == {"forward", "backward", "optimiser"}
    assert found.flops > 2 * (2 * 32 * 128 * 64 + 3 * 32 * 16 * 128)


def test_module_calls_are_counted_and_hooks_are_removed():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.GELU(), nn.ReLU(inplace=True)))
    graph = trace(model, torch.zeros(2, 4), "fp32", True)
    assert graph.modules == 5
    assert op_names(graph, "forward")[1:3] == ["gelu", "inplace"]
    assert not nn.modules.module._global_forward_pre_hooks


@pytest.mark.parametrize(("width", "precision", "name"), [
    (64, "fp32", "lstm.forward"), (66, "fp32", "lstm.forward.odd"), (68, "fp32", "lstm.forward"),
    (68, "bf16", "lstm.forward.odd"), (72, "bf16", "lstm.forward"),
])  # fmt: skip
def test_recurrent_layers_with_unaligned_rows_are_named_odd(width, precision, name):
    graph = trace(nn.LSTM(width, width, batch_first=True), torch.zeros(2, 8, width), precision, False)
    assert [op.name for op in graph.ops if op.name.startswith("lstm")] == [name]
