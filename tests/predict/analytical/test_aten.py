"""Tests for the arithmetic and memory traffic of PyTorch ops, computed from their shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict.analytical.aten import ops_of
from gpusquad.predict.analytical.call import Call, Tensor
from gpusquad.predict.analytical.op import Dtype


def tensor(*shape, width=4, dtype: Dtype = "fp32", transposed=False):
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    if transposed:
        shape, strides = (*shape[:-2], shape[-1], shape[-2]), [*strides[:-2], strides[-1], strides[-2]]
    return Tensor(tuple(shape), tuple(strides), width, dtype)


def single_op(call):
    (op,), known = ops_of(call)
    assert known
    return op


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_product_has_two_flops_per_multiply_add(m, n, k):
    op = single_op(Call("addmm", (tensor(n), tensor(m, k), tensor(n, k, transposed=True)), (tensor(m, n),)))
    assert (op.kind, op.flops, op.shape) == ("matmul", 2 * m * n * k, (1, m, n, k))
    assert op.read_bytes == 4 * (m * k + n * k)
    assert op.write_bytes == 4 * m * n


def test_product_name_contains_layout_and_alignment():
    def name(n, left_transposed=False, right_transposed=False):
        left = tensor(64, 32, transposed=True) if left_transposed else tensor(32, 64)
        right = tensor(n, 64, transposed=True) if right_transposed else tensor(64, n)
        return single_op(Call("mm", (left, right), (tensor(32, n),))).name

    assert name(16) == "matmul.nn"
    assert name(16, right_transposed=True) == "matmul.nt"
    assert name(16, left_transposed=True) == "matmul.tn"
    assert name(17) == "matmul.nn.odd"


@pytest.mark.parametrize(("tf32", "dtype"), [(False, "fp32"), (True, "tf32")])
def test_products_use_tf32_only_when_allowed(tf32, dtype):
    assert single_op(Call("mm", (tensor(8, 8), tensor(8, 8)), (tensor(8, 8),), tf32=tf32)).dtype == dtype


def convolution(groups=1, bias=False, transposed=False):
    image, weight, out = tensor(2, 16, 8, 8), tensor(32, 16 // groups, 3, 3), tensor(2, 32, 8, 8)
    inputs = (image, weight, tensor(32)) if bias else (image, weight)
    return Call("convolution", inputs, (out,), (None, None, None, [1, 1], [1, 1], [1, 1], transposed, [0, 0], groups))


def test_convolution_with_bias_is_two_ops():
    ops, _ = ops_of(convolution(bias=True))
    assert [op.name for op in ops] == ["conv.forward", "bias"]
    assert ops[0].flops == 2 * (2 * 32 * 64) * 16 * 9
    assert (ops[0].shape, ops[0].dtype) == ((2, 16, 8, 8, 32, 3, 3, 1, 1), "tf32")


def test_convolution_groups_divide_the_flops():
    assert single_op(convolution(groups=4)).flops * 4 == single_op(convolution()).flops


def test_convolution_backward_has_the_requested_gradients():
    def names(*mask):
        inputs = (tensor(2, 32, 8, 8), tensor(2, 16, 8, 8), tensor(32, 16, 3, 3))
        args = (None, None, None, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, list(mask))
        return [op.name for op in ops_of(Call("convolution_backward", inputs, (), args, phase="backward"))[0]]

    assert names(True, True, True) == ["conv.dgrad", "conv.wgrad", "sum_channels"]
    assert names(False, True, False) == ["conv.wgrad"]


def test_transposed_convolution_is_counted_as_an_input_gradient():
    small, large, weight = tensor(2, 32, 8, 8), tensor(2, 16, 16, 16), tensor(32, 16, 2, 2)
    call = Call("convolution", (small, weight), (large,), (None, None, None, [2, 2], [0, 0], [1, 1], True, [0, 0], 1))
    op = single_op(call)
    assert (op.name, op.shape) == ("conv.dgrad", (2, 16, 16, 16, 32, 2, 2, 2, 1))
    assert op.flops == 2 * small.numbers * 16 * 4


def test_causal_attention_has_half_the_flops():
    q = tensor(2, 4, 128, 64, width=2, dtype="bf16")
    whole = single_op(Call("_scaled_dot_product_flash_attention", (q, q, q), (q,), (q, q, q, 0.0, False)))
    causal = single_op(Call("_scaled_dot_product_flash_attention", (q, q, q), (q,), (q, q, q, 0.0, True)))
    assert whole.flops == 4 * 8 * 128 * 128 * 64 == 2 * causal.flops
    assert (whole.shape, causal.name) == ((8, 128, 128, 64), "attention.forward.causal")


def test_views_have_no_cost_on_the_card():
    (op,), known = ops_of(Call("transpose", (tensor(4, 5),), (tensor(5, 4),), is_view=True))
    assert known
    assert (op.kernels, op.moved_bytes, op.flops) == (0, 0, 0)
    assert ops_of(Call("empty_like", (tensor(4),), (tensor(4),))) == ([], True)


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        (tensor(8, 8), tensor(8, 8), "copy"),
        (tensor(8, 8), tensor(8, 8, width=2, dtype="bf16"), "cast"),
        (tensor(8, 8, transposed=True), tensor(8, 8), "transpose"),
        (Tensor((2, 3, 4, 8), (96, 8, 24, 1)), tensor(2, 3, 4, 8), "permute"),
    ],
)
def test_copies_are_named_by_their_change_of_layout(source, target, name):
    assert single_op(Call("clone", (source,), (target,))).name == name


def test_expanded_dimensions_are_read_once():
    assert Tensor((64, 8), (0, 1)).bytes == 4 * 8


def test_unknown_op_moves_its_tensors_and_is_reported():
    (op,), known = ops_of(Call("fancy_new_op", (tensor(10),), (tensor(20),)))
    assert not known
    assert (op.kind, op.moved_bytes) == ("vector", 120)
    assert ops_of(Call("fancy_new_op", (tensor(10),), (tensor(20),), is_pointwise=True))[1]


@pytest.mark.parametrize(
    ("out", "name"), [(tensor(), "sum_all"), (tensor(8), "sum_rows"), (tensor(16, 1), "sum_inner")]
)
def test_sums_are_named_by_the_remaining_dimension(out, name):
    assert single_op(Call("sum", (tensor(16, 8),), (out,))).name == name
