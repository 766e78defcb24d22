# SPDX-License-Identifier: Apache-2.0
"""A part of a torch module, compiled by TVM: torch's tensors in and out, without copies."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import tvm
import tvm_ffi
from tvm import IRModule, relax
from tvm.relax.frontend.torch import from_exported_program
from tvm.target import Target

from kope_tvm.artifact import use_threads
from kope_tvm.cores import same_cores_afterwards
from kope_tvm.errors import ModelError
from kope_tvm.learned import Learned
from kope_tvm.llvm_build import build
from kope_tvm.prepack.constants import prepacked
from kope_tvm.schedule_error import TVM_ERRORS, first_line
from kope_tvm.target import TargetSpec
from kope_tvm.torch.split import Piece
from kope_tvm.torch.steps import steps_of

_ALIGNED_BYTES = 64
"""What TVM's code takes for granted of its arguments' addresses."""
_MANY = 1 << 22
"""Elements that torch adds up on several threads."""
_REFUSALS = (*TVM_ERRORS, NotImplementedError, AssertionError, AttributeError)
"""What TVM's importer raises of an operator that it does not know."""


def imported(piece: Piece) -> relax.Function:
    """A part as Relax, its parameters bound; raises ModelError where TVM does not know it."""
    try:
        exported = torch.export.export(piece.graph, piece.inputs)
        mod = from_exported_program(exported)
    except (*_REFUSALS, torch._dynamo.exc.UserError) as error:
        raise ModelError(f"{piece.name}: TVM cannot import it: {first_line(error)}") from error
    params = mod["main"].params
    values = {
        params[at].name: tvm.runtime.tensor(each.detach().cpu().numpy())
        for at, each in piece.constants.items()
    }
    bound = relax.transform.BindParams("main", values)(mod)
    # batch normalisation as products and sums, which fuse with what is before them
    return relax.transform.DecomposeOpsForInference("main")(bound)["main"]


class Kernel(torch.nn.Module):
    """Takes all that torch's part takes, parameters too, which it does not read."""

    def __init__(self, mod: IRModule, target: TargetSpec, piece: Piece) -> None:
        """`mod` is scheduled."""
        super().__init__()
        is_gpu = bool(target.facts.warp_lanes)
        if not is_gpu:
            torch.ones(_MANY).sum()  # torch's threads inherit the cores that the caller has
            # a thread of TVM's that waits by spinning makes one of torch's wait
            os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "0")
            use_threads(target.facts.num_cores)
        self._call = _callable(mod, Target(dict(target.tvm_target)), is_gpu)
        self._is_single = piece.is_single
        self._given = [i for i in range(len(piece.inputs)) if i not in piece.constants]
        with same_cores_afterwards():  # TVM starts its threads, and binds the caller
            self(*piece.inputs)

    def forward(self, *tensors: Any) -> Any:
        """The part's output, or a tuple of them."""
        outputs = self._call([_plain(tensors[i]) for i in self._given])
        return outputs[0] if self._is_single else tuple(outputs)


def place(target: TargetSpec) -> AbstractContextManager[Any]:
    """Where kernels are called: on a GPU, on torch's stream."""
    return tvm_ffi.use_torch_stream() if target.facts.warp_lanes else nullcontext()


def _callable(
    mod: IRModule, target: Target, is_gpu: bool
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    steps = steps_of(mod)
    if steps is not None:
        names = {step.name for step in steps.calls}
        funcs = {name: mod[name].with_attr("global_symbol", name) for name in names}
        library = build(IRModule(funcs), target).jit()
        device = torch.device("cuda" if is_gpu else "cpu")
        return steps.bound({name: library[name] for name in names}, device)
    entry = relax.VirtualMachine(build(mod, target), tvm.cuda() if is_gpu else tvm.cpu())["main"]

    def run(inputs: Sequence[Any]) -> list[Any]:
        return [torch.from_dlpack(each) for each in entry(*map(tvm_ffi.from_dlpack, inputs))]

    return run


def _plain(tensor: Any) -> Any:
    """Row-major from an aligned address: a view may be neither."""
    tensor = tensor.detach().contiguous()
    return tensor if tensor.data_ptr() % _ALIGNED_BYTES == 0 else tensor.clone()


def compiled(function: relax.Function, piece: Piece, target: TargetSpec, work_dir: str) -> Kernel:
    """A part compiled with what `work_dir` has learned; raises ModelError where TVM cannot."""
    known = Target(dict(target.tvm_target))
    mod = relax.get_pipeline("zero")(IRModule({"main": function}))
    try:
        mod, _ = Learned.open(work_dir, known).apply(mod)
        mod, _ = prepacked(mod, known)
        return Kernel(mod, target, piece)
    except TVM_ERRORS as error:
        raise ModelError(f"{piece.name}: TVM cannot compile it: {first_line(error)}") from error
