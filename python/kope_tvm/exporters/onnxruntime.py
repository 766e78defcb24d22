# SPDX-License-Identifier: Apache-2.0
"""A library of custom operators that ONNX Runtime loads, and the model that uses it."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

from kope_tvm import c_package, ort_package
from kope_tvm.artifact import Artifact
from kope_tvm.c_package.library import FLAGS, Library
from kope_tvm.c_package.lower import lowered
from kope_tvm.c_package.plan import Plan
from kope_tvm.c_package.source import Source
from kope_tvm.c_package.toolset import HOST, Toolset
from kope_tvm.errors import UsageError
from kope_tvm.evidence import Evidence, Example
from kope_tvm.ort_package.edges import Operator, domain_of
from kope_tvm.ort_package.proof import prove
from kope_tvm.ort_package.readme import Readme
from kope_tvm.ort_package.sample import sample
from kope_tvm.ort_package.tables import table

_C_TEXTS = Path(c_package.__file__).parent
_TEXTS = Path(ort_package.__file__).parent
_LINKED = ("-shared", "-fvisibility=hidden", "-Wl,--version-script=kope_ort.map", "-Wl,-z,defs")


class Onnxruntime:
    """One library, model.onnx, README.md, an example in C, and the sources."""

    def __init__(self, name: str, evidence: Evidence) -> None:
        """`name` is an identifier: the model's operator is called that."""
        self._name = name
        self._evidence = evidence

    def export(self, artifact: Artifact, out_dir: Path) -> tuple[Path, ...]:
        """Write all of it and run it; UsageError names what is not a straight line of kernels."""
        out_dir = out_dir.resolve()  # Tools run in folders of it.
        plan = lowered(artifact)
        operators = self._operators(plan, artifact.manifest.entry)
        model = _model(operators[0], self._evidence)
        sources = _folder(out_dir, "src")
        self._write_sources(plan, operators, sources)
        machine = str(artifact.target.get("mtriple", "")).partition("-")[0] or HOST
        library = Library(self._name, Toolset(machine), sources, ("KOPE_HOST_LOOPS",))
        library.compile_kernels(plan, artifact.target)
        library.describe_machine(artifact.manifest)
        made = out_dir / f"lib{self._name}_ort.so"
        _link(library, plan, made)
        (out_dir / "model.onnx").write_bytes(model)
        example = self._example(operators[0])
        self._write_example(operators[0], example, _folder(out_dir, "example"))
        num_threads = artifact.manifest.num_cores
        readme = Readme(made.name, operators, operators[0], num_threads, self._evidence.made_by)
        _write(out_dir / "README.md", readme.text())
        prove(operators[0], example, artifact, made)
        return tuple(sorted(path for path in out_dir.rglob("*") if path.is_file()))

    def _operators(self, plan: Plan, entry: str) -> tuple[Operator, ...]:
        """The model's own first."""
        first_is_entry = sorted(plan.functions, key=lambda each: each.source != entry)
        names = (self._name, *(f"{self._name}_{each.name}" for each in first_is_entry[1:]))
        domain = domain_of(self._name)
        pairs = zip(names, first_is_entry, strict=True)
        return tuple(Operator(domain, name, function) for name, function in pairs)

    def _write_sources(self, plan: Plan, operators: tuple[Operator, ...], sources: Path) -> None:
        made_by = self._evidence.made_by
        source = Source(self._name, plan, made_by)
        _write(sources / f"{self._name}.h", source.header())
        _write(sources / f"{self._name}.c", source.code())
        _write(sources / "kope_ops.h", table(self._name, operators, made_by))
        for name in ("kope_runtime.c", "kope_runtime.h"):
            copyfile(_C_TEXTS / name, sources / name)
        for name in ("kope_ort.c", "kope_ort.h", "kope_op.h", "kope_ort.map"):
            copyfile(_TEXTS / name, sources / name)

    def _example(self, operator: Operator) -> Example:
        """What evidence has of the function."""
        source = operator.function.source
        return next(each for each in self._evidence.examples if each.function == source)

    def _write_example(self, operator: Operator, example: Example, folder: Path) -> None:
        text = sample(operator, example.outputs, self._evidence.made_by)
        _write(folder / "sample.h", text)
        copyfile(_TEXTS / "main.c", folder / "main.c")
        copyfile(_C_TEXTS / "kope_check.h", folder / "kope_check.h")


def _model(operator: Operator, evidence: Evidence) -> bytes:
    try:
        from kope_tvm.ort_package.one_node import one_node_model
    except ImportError as error:
        raise UsageError(
            f"writing ONNX needs the package {error.name!r}; pip install 'kope-tvm[onnx]'"
        ) from error
    return one_node_model(operator, evidence.made_by)


def _link(library: Library, plan: Plan, made: Path) -> None:
    """One object of all that is the library's own, and what ONNX Runtime calls around it."""
    inner = library.sources / f"{library.name}_all.o"
    library.link(plan, inner)
    outer = ("-o", str(made), "kope_ort.c", inner.name, "-lm")
    library.tools.run("gcc", [*FLAGS, *_LINKED, *outer], library.sources)
    inner.unlink()


def _folder(out_dir: Path, *names: str) -> Path:
    found = out_dir.joinpath(*names)
    found.mkdir(parents=True, exist_ok=True)
    return found


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
