"""ONNX graphs as ops, memory and parameters."""

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
        [helper.make_node(kind, given, made, **attributes) for kind, given, made, attributes in nodes],
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


def test_a_convnet_forward():
    graph = from_onnx(CONVNET, batch=8)
    assert names(graph) == ["conv.forward", "bias", "batch_norm_eval", "pointwise", "sum_inner", "view", "matmul.nt"]
    conv, gemm = graph.ops[0], graph.ops[-1]
    assert conv.shape == (8, 3, 32, 32, 16, 3, 3, 2, 1)
    assert conv.flops == 2 * (8 * 16 * 16 * 16) * 27
    assert (gemm.shape, gemm.flops) == ((1, 8, 10, 16), 2 * 8 * 10 * 16)
    assert (graph.batch, graph.parameter_tensors, graph.parameters) == (8, 8, 432 + 5 * 16 + 160 + 10)
    assert not graph.unknown


def test_training_goes_back_through_every_op_but_the_first_input():
    graph = from_onnx(CONVNET, batch=8, training=True)
    back = [op.name for op in graph.ops if op.phase == "backward"]
    assert back[:2] == ["matmul.nn", "matmul.tn"]
    assert back[-1] == "conv.wgrad"
    assert "conv.dgrad" not in back
    assert "batch_norm" in names(graph)
    assert "batch_norm_backward" in back


def test_attention_made_of_products_is_batched():
    graph = from_onnx(ATTENTION, batch=4)
    assert names(graph) == ["matmul.nt", "transpose", "bmm.nn", "softmax", "bmm.nn"]
    assert [op.shape for op in graph.ops if op.kind == "matmul"] == [(1, 80, 32, 32), (4, 20, 20, 32), (4, 20, 32, 20)]


def test_memory_is_given_back_after_the_last_use_unless_it_trains():
    chain = model(
        [("Relu", ["x"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("Relu", ["b"], ["out"], {})],
        {"x": ["n", 1 << 20]},
        {},
    )
    one = 4 << 20
    inference, training = (from_onnx(chain, batch=1, training=training) for training in (False, True))
    assert peak(inference.events, inference.held).allocated_bytes == 3 * one
    assert peak(training.events, training.held).allocated_bytes >= 5 * one
    for graph in (inference, training):
        assert all(bytes_ >= 0 for _, bytes_ in graph.events)


def test_a_view_keeps_what_it_shows():
    shown = model(
        [
            ("Relu", ["x"], ["a"], {}),
            ("Flatten", ["a"], ["b"], {}),
            ("Relu", ["x"], ["c"], {}),
            ("Add", ["b", "c"], ["out"], {}),
        ],
        {"x": ["n", 1 << 20]},
        {},
    )
    graph = from_onnx(shown, batch=1)
    assert peak(graph.events, ()).allocated_bytes == 3 * (4 << 20)


def test_an_unknown_op_moves_its_bytes_and_is_reported():
    strange = model([("Relu", ["x"], ["a"], {}), ("Einsum", ["a"], ["out"], {"equation": "ij->ji"})], {"x": [4, 8]}, {})
    graph = from_onnx(strange)
    assert dict(graph.unknown) == {"Einsum": 1}
    assert graph.ops[-1].kind == "vector"
    assert graph.ops[-1].read_bytes == 4 * 32


def test_short_numbers_halve_the_bytes():
    full, short, mixed = (from_onnx(CONVNET, batch=8, precision=each) for each in ("fp32", "bf16", "amp-bf16"))
    assert short.ops[0].moved_bytes * 2 == full.ops[0].moved_bytes
    assert sum(short.held) * 2 == sum(full.held)
    assert mixed.parameter_bytes == full.parameter_bytes
    assert (full.ops[0].dtype, short.ops[0].dtype) == ("tf32", "bf16")


def test_a_fixed_batch_is_kept():
    fixed = model([("Relu", ["x"], ["out"], {})], {"x": [4, 8]}, {})
    assert from_onnx(fixed).batch == from_onnx(fixed, batch=4).batch == 4
    with pytest.raises(Invalid, match="fixes it at 4"):
        from_onnx(fixed, batch=8)


def test_a_transposed_convolution_is_the_gradient_of_another():
    up = model(
        [("ConvTranspose", ["x", "w"], ["out"], {"strides": [2, 2], "kernel_shape": [2, 2]})],
        {"x": [2, 32, 8, 8]},
        {"w": (32, 16, 2, 2)},
    )
    (op,) = from_onnx(up).ops
    assert (op.name, op.shape) == ("conv.dgrad", (2, 16, 16, 16, 32, 2, 2, 2, 1))


def test_files_bytes_and_models_are_the_same_to_an_estimate(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(CONVNET, path)
    found = [estimate(source, 8, 10).step_us for source in (CONVNET, CONVNET.SerializeToString(), path, str(path))]
    assert len(set(found)) == 1
    assert found[0] > 0
