# SPDX-License-Identifier: Apache-2.0
"""Elements of buffers as a script says them: `X[v_i, v_j]`."""

from __future__ import annotations

import ast


def indices(element: ast.Subscript) -> list[str]:
    """One text a dimension."""
    index = element.slice
    return [ast.unparse(each) for each in (index.elts if isinstance(index, ast.Tuple) else [index])]
