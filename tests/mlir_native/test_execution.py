# SPDX-License-Identifier: Apache-2.0
"""MLIR's own execution: the default lowering, scripts, and what must not come of either."""

import numpy as np
import pytest

pytest.importorskip("mlir")

from small_matmul import MATMUL

from kope_tvm.bench.mlir import MODULES
from kope_tvm.mlir.allow_list import check_text
from kope_tvm.mlir.execution import ExecutionError, Job, execute, run, time_calls
from kope_tvm.mlir.outline import outline
from kope_tvm.mlir.recipe import Recipe, recipe_from
from kope_tvm.mlir.recipe_space import RecipeSpace, Style
from kope_tvm.mlir.transform_script import script_of
from kope_tvm.target import Facts

FACTS = Facts(isa="avx512", vlen_bits=512, vector_registers=32)
RECIPE = Recipe(outer=((8, 32),), inner=((), (0, 0, 1)))
A = np.arange(512, dtype=np.float32).reshape(32, 16) % 7
B = np.arange(1024, dtype=np.float32).reshape(16, 64) % 5


def matmul_script(recipe: Recipe = RECIPE) -> str:
    return script_of(recipe, outline(MATMUL, "matmul.mlir", fuse_elementwise=False))


def script(body: str) -> str:
    return (
        "module attributes {transform.with_named_sequence} {\n"
        "transform.named_sequence @__transform_main(%root: !transform.any_op) {\n"
        f"{body}\ntransform.yield\n}}\n}}\n"
    )


def test_the_default_lowering_and_a_script_compute_the_product() -> None:
    for words in (None, matmul_script()):
        (found,) = run(MATMUL, [A, B], script=words)
        np.testing.assert_array_equal(found, A @ B)


def test_calls_are_timed() -> None:
    times = time_calls(MATMUL, [A, B], script=matmul_script(), repeat=3)
    assert len(times) == 3
    assert all(0 < secs < 1 for secs in times)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "no named sequence"),
        (script("%f = transform.structured.replace %root"),
         "transform.structured.replace is not on the list"),
        (script('transform.print %root : !transform.any_op'), "transform.print is not on the list"),
        (script('"transform.pdl_match"(%root) : (!transform.any_op) -> ()'), "transform.pdl_match"),
        (script("// {-#"), "has no place"),
    ],
)  # fmt: skip
def test_what_is_not_on_the_list_is_refused_before_anything_parses_it(
    words: str, told: str
) -> None:
    verdict = check_text(words)
    assert (verdict.accepted, verdict.code) == (False, "E_SCRIPT")
    assert told in verdict.reason


def test_a_pass_that_is_not_on_the_list_is_refused_in_the_worker() -> None:
    words = script(
        '%x = transform.apply_registered_pass "convert-linalg-to-affine-loops" to %root'
        " : (!transform.any_op) -> !transform.any_op"
    )
    with pytest.raises(ExecutionError, match="convert-linalg-to-affine-loops is not on the list"):
        run(MATMUL, [A, B], script=words)


def test_a_script_that_does_not_apply_says_why() -> None:
    words = script(
        "%m:3 = transform.split_handle %root"
        " : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)"
    )
    with pytest.raises(ExecutionError, match="E_TRANSFORM"):
        run(MATMUL, [A, B], script=words)


def test_a_function_that_takes_too_long_is_ended() -> None:
    with pytest.raises(ExecutionError, match="E_TIMEOUT"):
        execute(Job(MATMUL, limit_secs=0.05), [[A, B]])


def test_another_signature_is_refused() -> None:
    with pytest.raises(ExecutionError, match="E_SIGNATURE"):
        run(MATMUL, [A, A])


def test_a_recipe_is_data_and_comes_back_from_its_text() -> None:
    assert recipe_from(RECIPE.text()) == RECIPE
    with pytest.raises(ValueError, match="a recipe has no code"):
        recipe_from('{"code": "import os"}')
    with pytest.raises(ValueError, match="whole numbers"):
        recipe_from('{"outer": [[-8]]}')


def test_a_tile_that_divides_nothing_is_no_script() -> None:
    with pytest.raises(ValueError, match="7 divides no 32"):
        matmul_script(Recipe(outer=((7, 32),)))


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("matmul", Style.CONTRACTION),
        ("depthwise", Style.CONTRACTION),
        ("softmax", Style.ROWS),
        ("elementwise_reduction", Style.REDUCTION),
    ],
)
def test_the_first_guess_is_a_point_of_the_space(name: str, style: Style) -> None:
    path = MODULES / f"{name}.mlir"
    space = RecipeSpace(path.read_text(), name, FACTS)
    assert space.style is style
    assert space.knobs_of(space.recipe(space.first)) == space.first
    assert all(script_of(space.recipe(each), space.ops) for each in space.neighbours(space.first))
