# SPDX-License-Identifier: Apache-2.0
"""Attention whose keys come in parts: the same numbers, and on a GPU one kernel of five stages."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tvm
from cuda_emulation import Array, emulated
from rule_checks import assert_replays
from tvm import relax, te, tirx, topi

from kope_tvm.context import Context
from kope_tvm.cuda.kernels import kernels_of
from kope_tvm.gates.gpu_limits import fault
from kope_tvm.machine import load_target
from kope_tvm.operators import parse_operator
from kope_tvm.outcome import Verdict
from kope_tvm.proposers.algebra import Algebra
from kope_tvm.rewrite.key_parts import with_keys_in_parts
from kope_tvm.rewrite.parse import rewritten
from kope_tvm.schedules import attention_cuda
from kope_tvm.seat import Seat
from kope_tvm.workbench import Workbench, make_task

H200 = load_target("cuda-h200")
SPEC = "op:attention:h=2,m=64,n=256,d=32"


def in_parts(mod: tvm.IRModule) -> tvm.IRModule:
    """The module rewritten, as the rewrite lane accepts it."""
    script = with_keys_in_parts(str(mod["main"].script()))
    assert script is not None
    found = rewritten(script, mod)
    assert not isinstance(found, Verdict), str(found)
    return found


def masked(num_keys: int = 96) -> tvm.IRModule:
    """Two heads of attention with a mask that is added to the scores; V comes transposed."""
    q, k, v = (
        te.placeholder(s, name=n)
        for s, n in (((2, 32, 32), "q"), ((2, num_keys, 32), "k"), ((2, 32, num_keys), "v"))
    )
    mask = te.placeholder((32, num_keys), name="p")
    scores = topi.add(topi.nn.batch_matmul(q, k), mask)
    turned = topi.transpose(v, [0, 2, 1])
    out = topi.nn.batch_matmul(topi.nn.softmax(scores), turned, transpose_b=False)
    func = te.create_prim_func([q, k, v, mask, out])
    return tvm.IRModule({"main": func.with_attr("tirx.noalias", True)})


def of_relax() -> tvm.IRModule:
    """As Relax writes it for torch's `scaled_dot_product_attention`: int64, heads between."""
    bb = relax.BlockBuilder()
    args = [relax.Var(name, relax.TensorType((1, 64, 2, 32), "float32")) for name in "qkv"]
    with bb.function("main", args):
        with bb.dataflow():
            out = bb.emit_output(relax.op.nn.attention(*args))
        bb.emit_func_output(out)
    made = relax.transform.LegalizeOps()(bb.get())
    (func,) = (each for each in made.functions.values() if isinstance(each, tirx.PrimFunc))
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def reference(q: Array, k: Array, v: Array, mask: Array) -> Array:
    scores = q @ k.swapaxes(1, 2) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v.swapaxes(1, 2)


def arrays(func: tirx.PrimFunc) -> list[Array]:
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal([int(n) for n in param.shape]).astype(np.float32)
        for param in func.params
    ]


def run(mod: tvm.IRModule, values: list[Array]) -> Array:
    tensors = [tvm.runtime.tensor(value) for value in values]
    tvm.compile(mod, target="llvm")(*tensors)
    return np.asarray(tensors[-1].numpy())


def test_the_same_numbers_come_out() -> None:
    operator = parse_operator(SPEC)
    mod = operator.tir()
    values = arrays(mod["main"])
    found = run(in_parts(mod), values)
    wanted = operator.reference(*(value.astype(np.float64) for value in values[:-1]))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_part_that_is_masked_whole_weighs_nothing() -> None:
    values = arrays(masked()["main"])
    values[3][:, :32] = -np.inf
    found = run(in_parts(masked()), values)
    wanted = reference(*(value.astype(np.float64) for value in values[:-1]))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_row_that_is_masked_whole_is_no_number_as_before() -> None:
    values = arrays(masked()["main"])
    values[3][5] = -np.inf
    before, after = run(masked(), values), run(in_parts(masked()), values)
    assert np.isnan(before[:, 5]).all()
    np.testing.assert_array_equal(np.isnan(before), np.isnan(after))


def test_keys_that_no_part_divides_stay_whole() -> None:
    assert with_keys_in_parts(str(masked(num_keys=60)["main"].script())) is None


def test_what_else_the_softmax_is_read_for_keeps_it_whole() -> None:
    x, v = te.placeholder((32, 64), name="x"), te.placeholder((64, 32), name="v")
    weights = topi.nn.softmax(x)
    out = te.create_prim_func([x, v, topi.nn.matmul(weights, v), topi.max(weights, axis=-1)])
    assert with_keys_in_parts(str(out.script())) is None


def test_another_sum_of_exponentials_is_no_softmax() -> None:
    x, v = te.placeholder((32, 64), name="x"), te.placeholder((64, 32), name="v")
    exps = topi.exp(topi.subtract(x, topi.max(x, axis=-1, keepdims=True)))
    weights = topi.divide(exps, topi.sum(topi.abs(exps), axis=-1, keepdims=True))
    func = te.create_prim_func([x, v, topi.nn.matmul(weights, v)])
    assert with_keys_in_parts(str(func.script())) is None


@pytest.mark.parametrize(
    "mod",
    [parse_operator(SPEC).tir(), masked(), of_relax()],
    ids=["plain", "masked", "of Relax"],
)
@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler for the emulation")
def test_on_a_gpu_the_weights_never_leave_a_block(mod: tvm.IRModule) -> None:
    func = in_parts(mod)["main"]
    spaces = attention_cuda.schedule(func, H200)
    assert spaces
    values = arrays(func)
    wanted = run(mod, values)
    for sch in spaces:
        assert_replays(func, sch)
        kernels = kernels_of(sch.mod["main"])
        assert [fault(kernel, H200.facts) for kernel in kernels] == ["", ""]
        np.testing.assert_allclose(emulated(sch.mod, values, H200), wanted, rtol=1e-4, atol=1e-5)


def test_algebra_proposes_it_where_there_is_a_gpu() -> None:
    def changes(target: str) -> set[str]:
        bench = Workbench(make_task("attention", parse_operator(SPEC).tir(), load_target(target)))
        context = Context(bench.task, 0, num_wanted=8, trials_left=8, seed=1)
        return {proposal.origin.change for proposal in Algebra(Seat(bench)).propose(context)}

    assert "rewrite: attention, its keys in parts" in changes("cuda-h200")
    assert "rewrite: attention, its keys in parts" not in changes("x86-avx2")
