"""Transformers as op lists, from their configuration alone: for estimates without a framework.

The ops are those of the models of Hugging Face Transformers in eager mode: scores, mask, softmax and dropout of the
attention are separate kernels, and so are the eight steps of GPT-2's activation. ``fused`` is the result of a compiler:
the same products, and one kernel for each chain of other ops between them.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.analytical_models.transformer_layers import VALUE_BYTES, Builder, Family, RunConfig, Transformer
from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.op import Op

__all__ = ["MODELS", "RunConfig", "Transformer", "transformer_ops"]

# Sizes from the configurations published with the models (Hugging Face hub). Those of gpt3 and switchxl4 are from the
# configurations in the NeuSight repository (scripts/asplos/data/DLmodel_configs), whose measurements are evaluated.
MODELS = {
    "bert_base": Transformer("bert", 12, 768, 12, 3072, 30522),
    "bert_large": Transformer("bert", 24, 1024, 16, 4096, 30522),
    "gpt2": Transformer("gpt2", 12, 768, 12, 3072, 50257),
    "gpt2_medium": Transformer("gpt2", 24, 1024, 16, 4096, 50257),
    "gpt2_large": Transformer("gpt2", 36, 1280, 20, 5120, 50257),
    "gpt2_xl": Transformer("gpt2", 48, 1600, 25, 6400, 50257),
    "gpt3_xl": Transformer("gpt2", 24, 3072, 24, 12288, 50257),
    "gpt3_27": Transformer("gpt2", 32, 2560, 32, 10240, 50257),
    "gpt3_67": Transformer("gpt2", 32, 4096, 32, 16384, 50257),
    "opt_125m": Transformer("opt", 12, 768, 12, 3072, 50272),
    "opt_13": Transformer("opt", 24, 2048, 32, 8192, 50272),
    "opt_67": Transformer("opt", 32, 4096, 32, 16384, 50272),
    "switchxl4": Transformer("switch", 24, 1024, 32, 16384, 32128, 128, 24, 4, 64),
}


def transformer_ops(model: Transformer, run: RunConfig) -> list[Op]:
    """The ops of one step: forward, and in training the loss, the backward pass and the gradients' all-reduce. The
    optimiser is not included.
    """
    if run.dtype not in VALUE_BYTES:
        raise Invalid("dtype", f"{run.dtype} is not supported for transformers")
    if min(run.seq_len, run.batch, run.tensor_parallel) < 1:
        raise Invalid("run", "sequence length, batch and parallelism must be at least 1")
    builder = Builder(model, run)
    _FAMILIES[model.family](builder)
    if run.training:
        builder.gradients()
    return builder.ops


def _scores(b: Builder, keys: int, heads: int, backs: tuple[float, ...], drops: bool) -> None:
    """Attention between its two products: kernels of one value in and one out, softmax, dropout."""
    rows = b.run.batch * heads * b.run.seq_len
    if b.run.fused:
        b.softmax(rows, keys)
        return
    for back in backs:
        b.elementwise("scores", rows * keys, back=back)
    b.softmax(rows, keys)
    if drops:
        b.dropout(rows * keys)


def _attend(b: Builder, backs: tuple[float, ...], drops: bool = True) -> None:
    """Scores of all against all, the weighted sum, and the heads moved to the front before and to the back after.
    ``backs``: the kernels between scores and softmax, by the values that each reads and writes in the backward pass.
    """
    model, run = b.model, b.run
    heads = model.heads // run.tensor_parallel
    width = model.inner // model.heads
    values = run.batch * run.seq_len * heads * width
    for _ in range(3):
        b.copy(values)
    b.product("scores", run.batch * heads, run.seq_len, run.seq_len, width)
    _scores(b, run.seq_len, heads, backs, drops)
    b.product("weighted", run.batch * heads, run.seq_len, width, run.seq_len)
    b.copy(values)


def _bring_in(b: Builder, tokens: int, bias: bool = True) -> None:
    """Query, key and value, each from its own layer."""
    for name in ("query", "key", "value"):
        b.linear(name, tokens, b.model.inner // b.run.tensor_parallel, b.model.hidden, bias=bias)


def _bring_out(b: Builder, tokens: int, bias: bool = True) -> None:
    """The heads combined, and added to the input."""
    b.linear("out", tokens, b.model.hidden, b.model.inner // b.run.tensor_parallel, bias=bias)
    _add(b, tokens)


def _feed_forward(b: Builder, tokens: int, activate: Callable[[int], None]) -> None:
    """Widened, ``activate``d (for this many values), narrowed, and added to the input."""
    model, wide = b.model, b.model.ffn // b.run.tensor_parallel
    b.linear("up", tokens, wide, model.hidden)
    activate(tokens * model.ffn // b.run.tensor_parallel)
    b.linear("down", tokens, model.hidden, wide)
    _add(b, tokens)


def _add(b: Builder, tokens: int) -> None:
    b.meet(tokens)
    b.dropout(tokens * b.model.hidden)
    b.residual(tokens)


def _bert(b: Builder) -> None:
    model, run = b.model, b.run
    tokens = run.batch * run.seq_len
    hidden = tokens * model.hidden
    b.embed(tokens, model.vocab, shared=run.training)
    b.elementwise("positions", hidden, 2, 1, back=2, times=2)
    b.norm(tokens)
    b.dropout(hidden)
    b.count = model.layers
    _bring_in(b, tokens)
    _attend(b, backs=(2, 0))
    _bring_out(b, tokens)
    b.norm(tokens, after_add=True)
    _feed_forward(b, tokens, lambda values: b.elementwise("gelu", values, back=3))
    b.norm(tokens, after_add=True)
    b.count = 1
    if run.training:
        b.linear("transform", tokens, model.hidden, model.hidden)
        b.elementwise("gelu", hidden, back=3)
        b.norm(tokens)
        b.head(tokens, bias=True)


def _gpt2(b: Builder) -> None:
    model, run, part = b.model, b.run, b.run.tensor_parallel
    tokens = run.batch * run.seq_len
    hidden = tokens * model.hidden
    b.embed(tokens, model.vocab, shared=True)
    b.elementwise("positions", hidden, 2, 1, back=2)
    b.dropout(hidden)
    b.count = model.layers
    b.norm(tokens)
    b.linear("attention", tokens, 3 * model.inner // part, model.hidden)
    _attend(b, backs=(2, 2))
    _bring_out(b, tokens)
    b.norm(tokens, after_add=True)
    _feed_forward(b, tokens, lambda values: _gelu_in_steps(b, values))
    b.count = 1
    b.norm(tokens, after_add=True)
    b.head(tokens)


def _gelu_in_steps(b: Builder, values: int) -> None:
    """Half the input, its cube, a tenth of that, their sum, scaled, tanh, plus one, times the half: eight kernels with
    ten inputs. In backward each product and the cube add their own, and three gradients are summed at the input.
    """
    if b.run.fused:
        b.elementwise("gelu", values, back=3)
        return
    b.stream("gelu", values, 1, 1, times=6)
    b.stream("gelu", values, 2, 1, times=2)
    if b.run.training:
        b.stream("gelu", values, 1, 1, phase="backward", times=5)
        b.stream("gelu", values, 2, 1, phase="backward", times=6)


def _opt(b: Builder) -> None:
    model, run, part = b.model, b.run, b.run.tensor_parallel
    tokens = run.batch * run.seq_len
    hidden = tokens * model.hidden
    b.embed(tokens, model.vocab, shared=True)
    b.elementwise("mask", run.batch * run.seq_len**2, times=6)
    b.elementwise("positions", hidden, 2, 1, back=2, times=2)
    b.count = model.layers
    b.norm(tokens)
    _bring_in(b, tokens)
    if not run.fused:
        b.elementwise("scale", tokens * model.inner // part, back=2)
    _attend(b, backs=(0, 9), drops=False)
    _bring_out(b, tokens)
    b.norm(tokens, after_add=True)
    _feed_forward(b, tokens, lambda values: b.elementwise("relu", values, back=3))
    b.count = 1
    b.norm(tokens, after_add=True)
    b.head(tokens)


def _switch(b: Builder) -> None:
    """Encoder and decoder. In every other layer of each, a router and its experts replace the dense pair."""
    model, run = b.model, b.run
    tokens = run.batch * run.seq_len
    for layers, attentions in ((model.layers, 1), (model.decoder_layers, 2)):
        b.count = 1
        b.embed(tokens, model.vocab, shared=True)
        b.dropout(tokens * model.hidden)
        b.count = layers * attentions
        _switch_attention(b, tokens)
        b.count = layers - layers // 2
        _switch_dense(b, tokens)
        b.count = layers // 2
        _switch_sparse(b, tokens)
        b.count = 1
        _root_norm(b, tokens)
    b.head(tokens)


def _root_norm(b: Builder, tokens: int) -> None:
    """Normalisation by the root of the mean square, step by step."""
    values = tokens * b.model.hidden
    b.stream("norm", values, 1, 1, times=3)
    b.stream("norm", values, 1, 0, kind="reduce", kernels=3)
    b.weights(b.model.hidden)
    if b.run.training:
        b.stream("norm", values, 2, 1, phase="backward", times=6)
        b.stream("norm", values, 1, 0, kind="reduce", phase="backward", times=2)


def _switch_attention(b: Builder, tokens: int) -> None:
    _root_norm(b, tokens)
    _bring_in(b, tokens, bias=False)
    _attend(b, backs=(3,))
    _bring_out(b, tokens, bias=False)


def _switch_dense(b: Builder, tokens: int) -> None:
    _root_norm(b, tokens)
    _two_layers(b, tokens)
    b.dropout(tokens * b.model.hidden)
    b.residual(tokens)


def _two_layers(b: Builder, rows: int) -> None:
    model, part = b.model, b.run.tensor_parallel
    b.linear("up", rows, model.ffn // part, model.hidden, bias=False)
    b.elementwise("relu", rows * model.ffn // part, back=3)
    b.dropout(rows * model.ffn // part)
    b.linear("down", rows, model.hidden, model.ffn // part, bias=False)
    b.meet(rows)


def _switch_sparse(b: Builder, tokens: int) -> None:
    """Each expert takes its share of the tokens, up to its capacity, and is padded to it."""
    model, run = b.model, b.run
    layers = b.count
    _root_norm(b, tokens)
    b.linear("router", tokens, model.experts, model.hidden, bias=False)
    b.elementwise("router", tokens * model.experts, back=2, times=_ROUTER_KERNELS)
    b.elementwise("route", tokens * model.hidden, back=2, times=3)
    b.count = layers * model.experts
    rows = run.batch * model.capacity
    b.elementwise("route", rows * model.hidden, back=2, times=_EXPERT_KERNELS)
    b.wait(_EXPERT_WAITS)
    _two_layers(b, rows)
    b.count = layers
    b.dropout(tokens * model.hidden)
    b.residual(tokens)


_ROUTER_KERNELS = 20
"""Softmax, the best expert of each token, its position in the queue, masks: all small."""
_EXPERT_KERNELS = 15
"""Select an expert's tokens, gather, pad and scatter them back."""
_EXPERT_WAITS = 4
"""The number of its tokens, read twice, and which they are, once to read and once to write."""
_FAMILIES: dict[Family, Callable[[Builder], None]] = {"bert": _bert, "gpt2": _gpt2, "opt": _opt, "switch": _switch}
