# SPDX-License-Identifier: Apache-2.0
"""What builds the examples of an exported folder, and what tells a reader how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kope_tvm.ggml_package.operator import GgmlOperator
from kope_tvm.ggml_package.plug import Plug

_ALLOWED = {"float": 1e-4, "int8": 5e-2}
"""Of the largest error over the root mean square: int8 rows are off by a 250th of their largest."""
_CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project({name}_example C)
find_package(ggml REQUIRED)

add_library({name} STATIC IMPORTED)
set_target_properties({name} PROPERTIES
  IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/../lib/lib{name}.a"
  INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}/../include"
  INTERFACE_LINK_LIBRARIES m)
add_library({name}_ggml STATIC ../ggml/{name}_ggml.c)
target_include_directories({name}_ggml PUBLIC ../ggml)
target_link_libraries({name}_ggml PUBLIC {name} ggml::ggml)

enable_testing()
foreach(program {programs})
  add_executable(${{program}} ${{program}}.c)
  target_link_libraries(${{program}} PRIVATE {name}_ggml m)
  add_test(NAME ${{program}} COMMAND ${{program}})
endforeach()
"""
_BUILD = """\
GGML is where ggml is installed: the folder with `include/ggml.h` and `lib/cmake/ggml`. For a
`llama-cpp-python` that is its site-packages:

```sh
GGML="$(python -c 'import pathlib, llama_cpp; print(pathlib.Path(llama_cpp.__file__).parents[1])')"
cmake -S example -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$GGML" \\
  -DCMAKE_BUILD_RPATH="$GGML/lib"
cmake --build build
{runs}
```
"""
_RULES = """\
- Shapes and types are fixed; the function answers NULL for others, and for tensors that are not
  contiguous. Tensors may begin anywhere.
- Threads are ggml's own. {threads}
- The library needs libc and libm, and no TVM. `ggml/{name}_ggml.c` is compiled with your program,
  against its ggml: `lib/` does not depend on ggml's version.
- `src/` is what the library is made of.
"""


@dataclass(frozen=True)
class Project:
    """The folder around a plug."""

    plug: Plug
    machine: str

    @property
    def compared(self) -> GgmlOperator | None:
        """The first that ggml has itself."""
        return next((each for each in self.plug.operators if each.is_mul_mat), None)

    def cmake_lists(self) -> str:
        """CMakeLists.txt of the examples."""
        programs = "main compare" if self.compared else "main"
        return _CMAKE.format(name=self.plug.name, programs=programs)

    def compare_header(self) -> str:
        """Of `compare.c`."""
        operator = self.compared
        assert operator is not None
        rows, weights = operator.inputs
        source = " ".join(self.plug.made_by[:1])
        allowed = _ALLOWED["int8" if "_q8_0:" in source else "float"]
        return (
            f'#pragma once\n\n#include "{self.plug.name}_ggml.h"\n\n'
            f"#define OPERATOR {self.plug.call(operator)}\n"
            f"#define TYPE {weights.type}\n"
            f"enum {{ M = {rows.extents[1]}, N = {weights.extents[1]}, K = {rows.extents[0]} }};\n"
            f"// The largest error over the root mean square.\n#define ALLOWED {allowed!r}\n"
        )

    def readme(self) -> str:
        """README.md."""
        runs = "build/main\nbuild/compare" if self.compared else "build/main"
        return "\n".join(
            [
                f"# {self.plug.name} for ggml",
                "",
                *self._operators(),
                "",
                "## Build and run",
                "",
                _BUILD.format(runs=runs),
                *self._programs(),
                "",
                "## Rules",
                "",
                _RULES.format(name=self.plug.name, threads=self._threads()),
                "## What made it",
                "",
                *(f"    {line}" for line in self.plug.made_by),
                "",
            ]
        )

    def _operators(self) -> Iterator[str]:
        yield f"`ggml/{self.plug.name}_ggml.h` has"
        yield ""
        yield "```c"
        for each in self.plug.operators:
            given = ", ".join(tensor.name for tensor in each.inputs)
            yield f"struct ggml_tensor* out = {self.plug.call(each)}(ctx, {given});"
            for tensor in (*each.inputs, each.output):
                yield f"//   {tensor}"
        yield "```"
        yield ""
        yield "to be called where a graph is built, as `ggml_mul_mat` is."

    def _programs(self) -> Iterator[str]:
        yield "`main` runs each operator on inputs that it makes and compares with stored values."
        if self.compared:
            yield "`compare` runs it beside `ggml_mul_mat` of the same tensors, in turns on the"
            yield "same threads, also with weights repacked as ggml likes them best, and prints how"
            yield "far each is off a product in float64 of the weights as they are stored."

    def _threads(self) -> str:
        if all(each.is_shared for each in self.plug.operators):
            return "All that a graph is computed with share the work, up to 64 evenly."
        shared = [self.plug.call(each) for each in self.plug.operators if each.is_shared]
        one = "one of them computes the operator while the others wait"
        return f"{', '.join(shared)} is shared by all; of others {one}." if shared else f"{one}."
