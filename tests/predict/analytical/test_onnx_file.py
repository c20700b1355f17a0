"""Tests for reading ONNX graphs as ops, memory and parameters."""

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.estimate import estimate
from gpusquad.predict.analytical.memory import peak
from gpusquad.predict.analytical.onnx_file import from_onnx

onnx = pytest.importorskip("onnx")
FLOAT = 1


def model(nodes, inputs, weights, outputs=("out",)):
    helper = onnx.helper
    tensors = [
        onnx.TensorProto(name=name, data_type=FLOAT, dims=shape, raw_data=bytes(4 * size(shape)))
        for name, shape in weights.items()
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, sources, results, **attributes) for kind, sources, results, attributes in nodes],
        "test",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def size(shape):
    total = 1
    for each in shape:
        total *= each
    return total


CONVNET = model(
    [
        ("Conv", ["image", "filters", "offsets"], ["a"], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"], {}),
        ("Relu", ["n"], ["r"], {}),
        ("GlobalAveragePool", ["r"], ["p"], {}),
        ("Flatten", ["p"], ["f"], {}),
        ("Gemm", ["f", "w", "c"], ["out"], {"transB": 1}),
    ],
    {"image": ["batch", 3, 32, 32]},
    {"filters": (16, 3, 3, 3), **dict.fromkeys(("offsets", "s", "b", "m", "v"), (16,)), "w": (10, 16), "c": (10,)},
)  # fmt: skip
ATTENTION = model(
    [
        ("MatMul", ["x", "wq"], ["q"], {}),
        ("Transpose", ["x"], ["k"], {"perm": [0, 2, 1]}),
        ("MatMul", ["q", "k"], ["scores"], {}),
        ("Softmax", ["scores"], ["weights"], {}),
        ("MatMul", ["weights", "x"], ["out"], {}),
    ],
    {"x": ["batch", 20, 32]},
    {"wq": (32, 32)},
)


def names(graph):
    return [op.name for op in graph.ops]


def test_convnet_forward_ops():
    graph = from_onnx(CONVNET, batch=8)
    assert names(graph) == ["conv.forward", "bias", "batch_norm_eval", "pointwise", "sum_inner", "view", "matmul.nt"]
    conv, gemm = graph.ops[0], graph.ops[-1]
    assert conv.shape == (8, 3, 32, 32, 16, 3, 3, 2, 1)
    assert conv.flops == 2 * (8 * 16 * 16 * 16) * 27
    assert (gemm.shape, gemm.flops) == ((1, 8, 10, 16), 2 * 8 * 10 * 16)
    assert (graph.batch, graph.parameter_tensors, graph.parameters) == (8, 8, 432 + 5 * 16 + 160 + 10)
    assert not graph.unknown


def test_training_adds_backward_ops_except_for_the_input_gradient():
    graph = from_onnx(CONVNET, batch=8, training=True)
    back = [op.name for op in graph.ops if op.phase == "backward"]
    assert back[:2] == ["matmul.nn", "matmul.tn"]
    assert back[-1] == "conv.wgrad"
    assert "conv.dgrad" not in back
    assert "batch_norm" in names(graph)
    assert "batch_norm_backward" in back


def test_attention_from_products_uses_batched_products():
    graph = from_onnx(ATTENTION, batch=4)
    assert names(graph) == ["matmul.nt", "transpose", "bmm.nn", "softmax", "bmm.nn"]
    assert [op.shape for op in graph.ops if op.kind == "matmul"] == [(1, 80, 32, 32), (4, 20, 20, 32), (4, 20, 32, 20)]


def test_memory_is_released_after_the_last_use_in_inference_only():
    chain = model(
        [("Relu", ["x"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("Relu", ["b"], ["out"], {})],
        {"x": ["n", 1 << 20]},
        {},
    )
    tensor_bytes = 4 << 20
    inference, training = (from_onnx(chain, batch=1, training=training) for training in (False, True))
    assert peak(inference.events, inference.held).allocated_bytes == 3 * tensor_bytes
    assert peak(training.events, training.held).allocated_bytes >= 5 * tensor_bytes
    for graph in (inference, training):
        assert all(bytes_ >= 0 for _, bytes_ in graph.events)


def test_view_keeps_its_base_tensor_alive():
    with_view = model(
        [
            ("Relu", ["x"], ["a"], {}),
            ("Flatten", ["a"], ["b"], {}),
            ("Relu", ["x"], ["c"], {}),
            ("Add", ["b", "c"], ["out"], {}),
        ],
        {"x": ["n", 1 << 20]},
        {},
    )
    graph = from_onnx(with_view, batch=1)
    assert peak(graph.events, ()).allocated_bytes == 3 * (4 << 20)


def test_unknown_op_moves_its_bytes_and_is_reported():
    with_unknown_op = model(
        [("Relu", ["x"], ["a"], {}), ("Einsum", ["a"], ["out"], {"equation": "ij->ji"})], {"x": [4, 8]}, {}
    )
    graph = from_onnx(with_unknown_op)
    assert dict(graph.unknown) == {"Einsum": 1}
    assert graph.ops[-1].kind == "vector"
    assert graph.ops[-1].read_bytes == 4 * 32


def test_half_precision_halves_the_bytes():
    full, short, mixed = (from_onnx(CONVNET, batch=8, precision=each) for each in ("fp32", "bf16", "amp-bf16"))
    assert short.ops[0].moved_bytes * 2 == full.ops[0].moved_bytes
    assert sum(short.held) * 2 == sum(full.held)
    assert mixed.parameter_bytes == full.parameter_bytes
    assert (full.ops[0].dtype, short.ops[0].dtype) == ("tf32", "bf16")


def test_fixed_batch_cannot_be_changed():
    fixed = model([("Relu", ["x"], ["out"], {})], {"x": [4, 8]}, {})
    assert from_onnx(fixed).batch == from_onnx(fixed, batch=4).batch == 4
    with pytest.raises(Invalid, match="fixes it at 4"):
        from_onnx(fixed, batch=8)


def test_transposed_convolution_is_counted_as_an_input_gradient():
    up = model(
        [("ConvTranspose", ["x", "w"], ["out"], {"strides": [2, 2], "kernel_shape": [2, 2]})],
        {"x": [2, 32, 8, 8]},
        {"w": (32, 16, 2, 2)},
    )
    (op,) = from_onnx(up).ops
    assert (op.name, op.shape) == ("conv.dgrad", (2, 16, 16, 16, 32, 2, 2, 2, 1))


def test_estimate_is_equal_for_file_bytes_and_model(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(CONVNET, path)
    found = [estimate(source, 8, 10).step_us for source in (CONVNET, CONVNET.SerializeToString(), path, str(path))]
    assert len(set(found)) == 1
    assert found[0] > 0
