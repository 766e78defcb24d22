# SPDX-License-Identifier: Apache-2.0
"""A part of a torch module, compiled by TVM: torch's tensors in and out, without copies."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
import tvm
import tvm_ffi
from tvm import IRModule, relax
from tvm.relax.frontend.torch import from_exported_program
from tvm.target import Target

from kope_tvm.artifact import use_threads
from kope_tvm.cores import off_the_workers_cores
from kope_tvm.errors import ModelError
from kope_tvm.learned import Learned
from kope_tvm.llvm_build import build
from kope_tvm.manifest import Coverage
from kope_tvm.prepack.constants import prepacked
from kope_tvm.schedule_error import TVM_ERRORS, first_line
from kope_tvm.target import TargetSpec
from kope_tvm.torch.split import Piece

_ALIGNED_BYTES = 64
"""What TVM's code takes for granted of its arguments' addresses."""
_REFUSALS = (*TVM_ERRORS, NotImplementedError, AssertionError, AttributeError, KeyError, TypeError)
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
    return relax.transform.BindParams("main", values)(mod)["main"]


class Kernel(torch.nn.Module):
    """Takes all that torch's part takes, parameters too, which it does not read."""

    def __init__(self, executable: Any, target: TargetSpec, piece: Piece) -> None:
        super().__init__()
        self.coverage = Coverage()
        self._is_gpu = bool(target.facts.warp_lanes)
        if not self._is_gpu:
            use_threads(target.facts.num_cores)
        device = tvm.cuda() if self._is_gpu else tvm.cpu()
        self._entry = relax.VirtualMachine(executable, device)["main"]
        self._is_single = piece.is_single
        self._given = [i for i in range(len(piece.inputs)) if i not in piece.constants]

    def forward(self, *tensors: Any) -> Any:
        """The part's output, or a tuple of them."""
        given = [tvm_ffi.from_dlpack(_plain(tensors[i])) for i in self._given]
        with self._place():
            found = self._entry(*given)
        outputs = tuple(torch.from_dlpack(each) for each in found)
        return outputs[0] if self._is_single else outputs

    def _place(self) -> AbstractContextManager[Any]:
        """Torch's stream, or the core that TVM's workers leave free."""
        if self._is_gpu:
            return tvm_ffi.use_torch_stream()  # type: ignore[no-any-return]
        return off_the_workers_cores()


def _plain(tensor: Any) -> Any:
    """Row-major from an aligned address: a view may be neither."""
    tensor = tensor.detach().contiguous()
    return tensor if tensor.data_ptr() % _ALIGNED_BYTES == 0 else tensor.clone()


def compiled(function: relax.Function, piece: Piece, target: TargetSpec, work_dir: str) -> Kernel:
    """A part compiled with what `work_dir` has learned; raises ModelError where TVM cannot."""
    known = Target(dict(target.tvm_target))
    mod = relax.get_pipeline("zero")(IRModule({"main": function}))
    try:
        mod, coverage = Learned.open(work_dir, known).apply(mod)
        mod, _ = prepacked(mod, known)
        kernel = Kernel(build(mod, known), target, piece)
    except TVM_ERRORS as error:
        raise ModelError(f"{piece.name}: TVM cannot compile it: {first_line(error)}") from error
    kernel.coverage = coverage
    return kernel
