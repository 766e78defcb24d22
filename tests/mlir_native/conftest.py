# SPDX-License-Identifier: Apache-2.0
"""The endpoint that a model of these tests answers at is the device tests' own."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "device"))
