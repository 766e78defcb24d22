# SPDX-License-Identifier: Apache-2.0
"""The pair of apache-tvm and apache-tvm-ffi that works, checked before either is imported."""

from __future__ import annotations

from importlib import metadata

from kope_tvm.errors import VersionError

PINS = (("apache-tvm", "0.27.0.post1"), ("apache-tvm-ffi", "0.1.14.post1"))
"""Those of pyproject.toml, as a test checks: a checkout has no metadata to read them from."""


def installed_version(distribution: str) -> str:
    """Return the version of an installed distribution, empty where there is none."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def check_versions() -> None:
    """Raise VersionError unless the installed pair is the pinned one.

    Reads metadata only: importing a wrong pair ends in a segmentation fault, not in an exception.
    """
    wrong = [
        f"{name} {found or 'is missing'}, expected {name} {pinned}"
        for name, pinned in PINS
        if (found := installed_version(name)) != pinned
    ]
    if wrong:
        fix = " ".join(f"{name}=={pinned}" for name, pinned in PINS)
        raise VersionError(
            f"kope-tvm needs a pair of TVM packages that work together: {'; '.join(wrong)}; "
            f"run `pip install {fix}`"
        )
