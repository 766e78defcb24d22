# SPDX-License-Identifier: Apache-2.0
"""README.md of an exported folder: how Python and C run what lies there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kope_tvm.c_package.plan import ALIGNMENT_BYTES
from kope_tvm.ort_package.edges import Operator

_C = """\
`example/main.c` does the same through the C interface and compares with stored values. ORT is the
folder that `libonnxruntime.so` lies in:

```sh
cc -std=c11 -O2 -Isrc example/main.c "$ORT/libonnxruntime.so" -lm -Wl,-rpath,"$ORT" -o main
./main "$PWD/{library}" model.onnx
```
"""
_RULES = """\
- ONNX Runtime 1.17 or newer. The library needs libc and libm, and is loaded by its whole path.
- The whole model is one node and its weights are in the library. Shapes are fixed: another shape
  or dtype is refused with a status that says what was given and what was expected.
- Many threads may run one session at once.
- Loops run on ONNX Runtime's own threads: `intra_op_num_threads` of the session says how many, of
  which a loop uses {num_threads} at most. With 1 all stays in the caller's thread.
- Inputs that do not begin at a multiple of {alignment} bytes, as most of NumPy's, are copied; what
  ONNX Runtime allocates, as `OrtValue.ortvalue_from_shape_and_type` does, is taken where it lies.
- `src/` is what the library is made of.
"""


@dataclass(frozen=True)
class Readme:
    """What the text is about."""

    library: str
    operators: Sequence[Operator]
    main: Operator
    """The one that model.onnx asks for."""
    num_threads: int
    made_by: Sequence[str]

    def text(self) -> str:
        """The whole file."""
        return "\n".join(
            [
                f"# {self.main.name} for ONNX Runtime",
                "",
                f"`{self.library}` has the operators, `model.onnx` uses the first:",
                "",
                *(f"- {line}" for line in map(_signature, self.operators)),
                "",
                "## Python",
                "",
                *self._python(),
                "",
                "## C",
                "",
                _C.format(library=self.library),
                "## Rules",
                "",
                _RULES.format(num_threads=self.num_threads, alignment=ALIGNMENT_BYTES),
                "## What made it",
                "",
                *(f"    {line}" for line in self.made_by),
                "",
            ]
        )

    def _python(self) -> Iterator[str]:
        if any(each.spec.dtype == "bfloat16" for each in self.main.function.params):
            yield "ONNX Runtime's Python interface has no arrays of bfloat16."
            return
        yield "```python"
        yield "from pathlib import Path"
        yield ""
        yield "import numpy as np"
        yield "import onnxruntime"
        yield ""
        yield "options = onnxruntime.SessionOptions()"
        yield f'options.register_custom_ops_library(str(Path("{self.library}").resolve()))'
        yield 'session = onnxruntime.InferenceSession("model.onnx", options)'
        yield "feed = {"
        for param in self.main.inputs:
            name, spec = self.main.edge_name(param), param.spec
            yield f'    {json.dumps(name)}: np.zeros({spec.shape}, "{spec.dtype}"),'
        yield "}"
        yield "for edge, found in zip(session.get_outputs(), session.run(None, feed)):"
        yield "    print(edge.name, found.shape, found.dtype)"
        yield "```"


def _signature(operator: Operator) -> str:
    """`kope.relu::relu(x [4, 8] float32) -> y [4, 8] float32`."""
    taken = ", ".join(str(each.spec) for each in operator.inputs)
    given = ", ".join(str(each.spec) for each in operator.outputs)
    return f"`{operator.domain}::{operator.name}({taken}) -> {given}`"
