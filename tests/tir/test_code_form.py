# SPDX-License-Identifier: Apache-2.0
"""What the target string says, chosen by a candidate's schedule or by a model's functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import IRModule, relax
from tvm.s_tir import Schedule
from tvm.target import Target

from kope_tvm.code_form import CodeForm, form_of, form_of_all, generically
from kope_tvm.llvm_build import build, object_bytes
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.operators import parse_operator
from kope_tvm.proposal import Decisions
from kope_tvm.relative.carried import Place, carried
from kope_tvm.relative.yardstick import Yardstick
from kope_tvm.space import Space
from kope_tvm.workbench import Workbench, make_task, trace_text

K1 = load_target("spacemit-k1")
HOST = {"kind": "llvm", "num-cores": 1}
OPERATOR = "op:softmax:m=14,n=185,dtype=float32"


def _guess(number: int) -> tuple[Workbench, Space]:
    bench = Workbench(make_task("main", parse_operator(OPERATOR).tir(), K1))
    return bench, bench.rule_spaces[number]


def _module(bench: Workbench, space: Space) -> IRModule:
    return bench.apply(Decisions(space.name, space.trace)).sch.mod  # type: ignore[union-attr]


def test_a_guess_for_a_generic_core_is_compiled_for_one() -> None:
    bench, guess = _guess(0)
    other = generically(guess)
    assert other is not None
    own, generic = _module(bench, guess), _module(bench, other)
    assert form_of(own["main"]) == CodeForm()
    assert form_of(generic["main"]) == CodeForm(is_generic=True)

    features = [f"+{each}" for each in tvm.target.codegen.llvm_get_cpu_features(tvm_target(K1))]
    options = {**K1.tvm_target, "mcpu": "generic-rv64"}
    by_hand = Target({**options, "mattr": [*sorted(features), *K1.tvm_target["mattr"]]})  # type: ignore[misc]
    assert object_bytes(generic, tvm_target(K1)) == object_bytes(own, by_hand)
    assert object_bytes(generic, tvm_target(K1)) != object_bytes(own, tvm_target(K1))


def test_scalable_vectors_need_the_feature_v() -> None:
    found = CodeForm(is_scalable=True).of(tvm_target(K1))
    assert "+v" in list(found.attrs["mattr"])
    assert "-v" not in list(found.attrs["mattr"])
    assert str(found.attrs["mcpu"]) == "spacemit-x60"


def test_a_target_without_choices_has_no_such_knobs() -> None:
    bench = Workbench(make_task("main", parse_operator(OPERATOR).tir(), load_target("host")))
    assert all("kope." not in space.trace for space in bench.rule_spaces)
    assert all(generically(space) is None for space in bench.rule_spaces)


@pytest.mark.parametrize(
    ("machine", "operator", "forms"),
    [
        (
            "spacemit-k1",
            "op:softmax:m=28,n=185,dtype=float32",
            {"kope.tuning": 1, "kope.vectors": 0},
        ),
        ("spacemit-k3-x100", OPERATOR, {"kope.vectors": 0}),
        ("host", OPERATOR, {}),
    ],
)
def test_a_choice_goes_where_there_is_one(
    machine: str, operator: str, forms: dict[str, int]
) -> None:
    _, guess = _guess(0)
    source = generically(guess)
    assert source is not None
    spec = load_target(machine)
    bench = Workbench(make_task("main", parse_operator(operator).tir(), spec))
    place = Place(Yardstick.of(spec.facts, ("float32",)))
    found = [
        carried(source, Yardstick.of(K1.facts, ("float32",)), space, place)
        for space in bench.rule_spaces
    ]
    landed = next(one for one in found if one is not None)
    assert {key: knob.value for key, knob in landed.space.forms.items()} == forms


def test_functions_of_one_object_that_do_not_agree_are_compiled_as_the_target_says() -> None:
    plain = _softmax()["main"]
    marked = _marked(_softmax(), 1)["main"]
    assert form_of_all([marked, marked]) == CodeForm(is_generic=True)
    assert form_of_all([plain, marked]) == CodeForm()


@pytest.mark.parametrize("saved", [False, True])
def test_a_model_of_two_forms_computes_what_it_did(tmp_path: Path, saved: bool) -> None:
    executable = build(_model(), Target(HOST))
    own, beside = executable.mod.imports
    assert [one.implements_function("first") for one in (own, beside)] == [True, False]
    assert [one.implements_function("second_apart") for one in (own, beside)] == [False, True]
    assert not own.implements_function("second")
    if saved:
        executable.export_library(str(tmp_path / "model.so"))
        executable = tvm.runtime.load_module(str(tmp_path / "model.so"))
    given = np.linspace(-2, 2, 64, dtype="float32").reshape(4, 16)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    once = np.exp(given) / np.exp(given).sum(axis=1, keepdims=True)
    twice = np.exp(once) / np.exp(once).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(given)).numpy(), twice, rtol=1e-5)


def _softmax() -> IRModule:
    return parse_operator("op:softmax:m=4,n=16,dtype=float32").tir()


def _marked(mod: IRModule, value: int) -> IRModule:
    sch = Schedule(mod)
    sch.annotate(sch.get_sblock("root"), "kope.tuning", value)
    assert "kope.tuning" in trace_text(sch.trace)
    return sch.mod


def _model() -> IRModule:
    """Softmax of softmax: the second for a generic core."""
    builder = relax.BlockBuilder()
    first = builder.add_func(_softmax()["main"].with_attr("global_symbol", "first"), "first")
    second = builder.add_func(
        _marked(_softmax(), 1)["main"].with_attr("global_symbol", "second"), "second"
    )
    given = relax.Var("given", relax.TensorType((4, 16), "float32"))
    with builder.function("main", [given]):
        with builder.dataflow():
            between = builder.emit(relax.call_tir(first, [given], given.ty))
            out = builder.emit_output(relax.call_tir(second, [between], given.ty))
        builder.emit_func_output(out)
    return builder.get()
