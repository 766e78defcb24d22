# SPDX-License-Identifier: Apache-2.0
"""What an illegal plan is told: the step, the argument at fault, what was expected, what helps."""

from __future__ import annotations

import pytest
import tvm
from plan_checks import Steps, mapped, matmul, on_c, refusal, schedule
from tvm import te, tirx

from kope_tvm.outcome import Verdict
from kope_tvm.plan.schedule import planned
from kope_tvm.plan.steps import read_steps
from kope_tvm.proposal import Plan
from kope_tvm.schedules import widening  # noqa: F401  (registers an intrinsic)

_SPLIT_K = on_c("split", loop="k", factors=[12, 4])
_DECOMPOSE = on_c("decompose_reduction", loop="k")
_LOOPS = "its loops: i 32, j 64, k 48"

_CASES: dict[str, tuple[Steps, str]] = {
    "product too small": (
        [_SPLIT_K, _SPLIT_K | {"loop": "j"}, on_c("split", loop="i", factors=[4, 7])],
        "step 2 split(loop='j'): factors multiply to 48, the loop extent is 64; "
        "it divides by 1 2 4 8 16 32 64; one factor may be -1",
    ),
    "the issue's example": (
        [_DECOMPOSE, _SPLIT_K, on_c("split", loop="i", factors=[4, 7])],
        "step 3 split(loop='i'): factors multiply to 28, the loop extent is 32; "
        "it divides by 1 2 4 8 16 32; one factor may be -1",
    ),
    "product too large": (
        [on_c("split", loop="i", factors=[16, 16])],
        "step 1 split(loop='i'): factors multiply to 256, the loop extent is 32: "
        "whole iterations would be empty; [-1, 16] with -1 for the rest fits",
    ),
    "split of no such loop": (
        [on_c("split", loop="kk", factors=[4, 8])],
        f"step 1 split(loop='kk'): no loop 'kk' in block 'C'; {_LOOPS}",
    ),
    "split of a loop that was split": (
        [_SPLIT_K, _SPLIT_K],
        "step 2 split(loop='k'): no loop 'k' in block 'C'; its loops: i 32, j 64, k_0 12, k_1 4",
    ),
    "split of a vectorized loop": (
        [on_c("vectorize", loop="j"), on_c("split", loop="j", factors=[4, 16])],
        "step 2 split(loop='j'): 'j' is vectorized already: split and fuse before that",
    ),
    "wrong number of names": (
        [on_c("split", loop="i", factors=[4, 8], into=["a"])],
        "step 1 split(into=['a']): 1 names for 2 loops",
    ),
    "a loop's name taken": (
        [on_c("split", loop="i", factors=[4, 8], into=["a", "j"])],
        "step 1 split(into=['a', 'j']): another loop of the block is called 'j'",
    ),
    "a block's name taken": (
        [on_c("cache_read", buffer="A", into="D")],
        "step 1 cache_read(into='D'): another block is called 'D'; take another name",
    ),
    "no such block": (
        [_SPLIT_K | {"block": "E"}],
        "step 1 split(block='E'): block 'E' does not exist; blocks: C, D",
    ),
    "a software pipeline on a CPU": (
        [on_c("annotate", loop="k", key="software_pipeline_stage", value=[0, 1])],
        "step 1 annotate(key='software_pipeline_stage'): software pipelines are for GPUs",
    ),
    "fuse of strangers": (
        [on_c("fuse", loops=["i", "k"])],
        "step 1 fuse(loops=['i', 'k']): only neighbours fuse, outermost first; "
        "the nest is i j k: reorder before",
    ),
    "fuse of one": (
        [on_c("fuse", loops="i")],
        "step 1 fuse(loops=['i']): fusing needs two loops or more",
    ),
    "vectorize a reduction": (
        [on_c("vectorize", loop="k")],
        "step 1 vectorize(loop='k'): a reduction loop cannot be vectorized; spatial: i j",
    ),
    "vectorize after decompose_reduction": (
        [_DECOMPOSE, on_c("vectorize", loop="j")],
        "step 2 vectorize(loop='j'): decompose_reduction came before: put this step before it",
    ),
    "fuse, then too many lanes": (
        [on_c("fuse", loops=["i", "j"], into="ij"), on_c("vectorize", loop="ij")],
        "step 2 vectorize(loop='ij'): 2048 lanes are too many, at most 128: "
        "split it and take the inner one",
    ),
    "unroll too much": (
        [on_c("fuse", loops=["i", "j"], into="ij"), on_c("unroll", loop="ij")],
        "step 2 unroll(loop='ij'): 2048 copies are too many, at most 64: "
        "split it and take the inner one",
    ),
    "unroll too much in all": (
        [on_c("unroll", loop="i"), on_c("unroll", loop="j")],
        "step 2 unroll(loop='j'): unrolled loops would copy the block 2048 times, at most 1024",
    ),
    "parallel in parallel": (
        [on_c("parallel", loop="i"), on_c("parallel", loop="j")],
        "step 2 parallel(loop='j'): loop 'i' of the nest is parallel already",
    ),
    "two marks": (
        [on_c("parallel", loop="i"), on_c("vectorize", loop="i")],
        "step 2 vectorize(loop='i'): the loop is parallel already",
    ),
    "threads on a CPU": (
        [on_c("bind", loop="i", thread="threadIdx.x")],
        "step 1 bind(thread='threadIdx.x'): this target has no threads to bind; "
        "use parallel and vectorize",
    ),
    "an annotation of a loop on a block": (
        [on_c("annotate", key="pragma_auto_unroll_max_step", value=16)],
        "step 1 annotate(key='pragma_auto_unroll_max_step'): it belongs to a loop: "
        "give one by `loop`",
    ),
    "cache_read of what is not read": (
        [on_c("cache_read", buffer="D")],
        "step 1 cache_read(buffer='D'): not a buffer the block reads; it reads A, B",
    ),
    "a GPU's scope on a CPU": (
        [on_c("cache_read", buffer="A", scope="shared")],
        "step 1 cache_read(scope='shared'): expected one of global, local on this target",
    ),
    "a map with a tail": (
        mapped("lambda i, j: (i // 7, i % 7, j)"),
        "step 1 transform_layout(map='lambda i, j: (i // 7, i % 7, j)'): the map leaves "
        "3 of 35 places empty: take numbers that divide, or give `pad`",
    ),
    "a map of other rank": (
        mapped("lambda i: i"),
        "step 1 transform_layout(map='lambda i: i'): 1 arguments for a buffer of 2 dimensions",
    ),
    "compute_at of an output": (
        [{"do": "compute_at", "block": "D", "at": "i", "of": "C"}],
        "step 1 compute_at(at='i'): outputs stay: move or inline the block that it reads",
    ),
    "compute_at itself": (
        [on_c("compute_at", at="i", of="C")],
        "step 1 compute_at(of='C'): a block cannot be computed at its own loop",
    ),
    "compute_at nowhere": (
        [on_c("compute_at", at="q")],
        "step 1 compute_at(at='q'): no other block has such a loop; D: i j",
    ),
    "inline of a reduction": (
        [on_c("compute_inline")],
        "step 1 compute_inline(block='C'): a reduction cannot be inlined",
    ),
    "decompose what does not reduce": (
        [{"do": "decompose_reduction", "block": "D", "loop": "i"}],
        "step 1 decompose_reduction(block='D'): it is not a reduction",
    ),
    "decompose twice": (
        [_DECOMPOSE, _DECOMPOSE],
        "step 2 decompose_reduction(block='C'): it was decomposed before",
    ),
    "decompose within the reduction": (
        [on_c("reorder", loops=["k", "i"]), on_c("decompose_reduction", loop="i")],
        "step 2 decompose_reduction(loop='i'): reduction loop 'k' is outside of it; "
        "give 'k' or a loop around it",
    ),
    "rfactor of a spatial loop": (
        [on_c("rfactor", loop="i")],
        "step 1 rfactor(loop='i'): it is spatial; reduction loops: k",
    ),
    "too little padding": (
        [on_c("pad_einsum", padding=[1, 1])],
        "step 1 pad_einsum(padding=[1, 1]): "
        "expected 3 integers, one for each of ['v_i', 'v_j', 'v_k']",
    ),
    "another target's intrinsic": (
        [on_c("tensorize", loop="i", intrin="wmma_sync_16x16x16_f16f16f32")],
        "step 1 tensorize(intrin='wmma_sync_16x16x16_f16f16f32'): "
        "not an intrinsic for target llvm; those: kope_dot_*, dot_16x4_*, dot_4x4_*",
    ),
    "an unknown intrinsic": (
        [on_c("tensorize", loop="i", intrin="kope_dot_any")],
        "step 1 tensorize(intrin='kope_dot_any'): no intrinsic of this name is registered",
    ),
    "an intrinsic of a newer machine": (
        [on_c("tensorize", loop="i", intrin="kope_dot_16x16_avx512vnni")],
        "step 1 tensorize(intrin='kope_dot_16x16_avx512vnni'): the target lacks avx512vnni",
    ),
    "an intrinsic that does something else": (
        [on_c("tensorize", loop="i", intrin="kope_dot_8x2_avx2")],
        "step 1 tensorize(loop='i'): The block doesn't match the tensor intrin",
    ),
}


@pytest.mark.parametrize("case", list(_CASES), ids=list(_CASES))
def test_refusal(case: str) -> None:
    steps, expected = _CASES[case]
    assert refusal(steps) == f"E_STEP {expected}"


def test_a_block_that_was_inlined_is_named_as_such() -> None:
    x = te.placeholder((8, 8), name="x")
    first = te.compute((8, 8), lambda i, j: x[i, j] * 2.0, name="first")
    last = te.compute((8, 8), lambda i, j: first[i, j] + 1.0, name="last")
    steps = [
        {"do": "compute_inline", "block": "first"},
        {"do": "vectorize", "block": "first", "loop": "j"},
    ]
    assert refusal(steps, tvm.IRModule({"main": te.create_prim_func([x, last])})) == (
        "E_STEP step 2 vectorize(block='first'): block 'first' was inlined or replaced; "
        "blocks: last"
    )


def test_blocks_of_one_name_are_told_apart_by_into_only() -> None:
    x = te.placeholder((8, 8), name="x")
    one = te.compute((8, 8), lambda i, j: x[i, j] + 1.0, name="same")
    two = te.compute((8, 8), lambda i, j: one[i, j] * 2.0, name="same")
    mod = tvm.IRModule({"main": te.create_prim_func([x, two])})
    sch = schedule(mod)
    names = [
        str(block.name_hint) for block in map(sch.get, sch.get_child_blocks(sch.get_sblock("root")))
    ]
    doubled = mod.script().replace(f'T.sblock("{names[1]}")', f'T.sblock("{names[0]}")')
    mod = tvm.script.from_source(doubled)
    assert refusal([{"do": "vectorize", "block": "same", "loop": "j"}], mod) == (
        "E_STEP step 1 vectorize(block='same'): 2 blocks are called 'same'; "
        "call new ones by `into` to tell them apart"
    )


def test_a_dynamic_loop_splits_by_minus_one_only() -> None:
    mod = matmul(tirx.Var("n", "int32"))
    split = on_c("split", loop="i", factors=[-1, 8])
    assert refusal([split], mod) == "None"
    assert refusal([split | {"factors": [4, 8]}], mod) == (
        "E_STEP step 1 split(factors=[4, 8]): the loop extent is not constant: leave one factor -1"
    )
    assert refusal([on_c("vectorize", loop="i")], mod) == (
        "E_STEP step 1 vectorize(loop='i'): it is not constant, at most 128: "
        "split it and take the inner one"
    )


def test_a_refused_plan_leaves_what_came_before_in_place() -> None:
    """The caller throws the schedule away; nothing is half done in it either."""
    sch = schedule(matmul())
    steps = read_steps([_SPLIT_K, on_c("fuse", loops=["i", "k_0"])])
    assert not isinstance(steps, Verdict)
    assert planned(Plan(steps), sch) is not None
    assert "for i, j, k_0, k_1 in T.grid(32, 64, 12, 4)" in sch.mod["main"].script()
