# SPDX-License-Identifier: Apache-2.0
"""The user's settings: `kope.toml` here or in `$KOPE_HOME`, the environment above both.

The command line is the one caller, so that the library itself never reads the environment.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kope_tvm.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE = "kope.toml"
_KEYS = ("base_url", "api_key_env", "model")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True)
class Endpoint:
    """Where a model is asked; the key stays in the environment and is never held here."""

    base_url: str = ""
    model: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    has_key: bool = False
    source: str = ""
    """The settings file; empty where there is none."""


def load_endpoint(home: Path, environment: Mapping[str, str] = os.environ) -> Endpoint:
    """The endpoint of the first `kope.toml` found, overridden by the environment.

    Raises UsageError for a malformed file.
    """
    path = next((folder / _FILE for folder in (Path(), home) if (folder / _FILE).is_file()), None)
    given = _read(path) if path else {}
    key_env = given.get("api_key_env", "OPENAI_API_KEY")
    return Endpoint(
        base_url=environment.get("OPENAI_BASE_URL") or given.get("base_url", ""),
        model=environment.get("KOPE_MODEL") or given.get("model", ""),
        api_key_env=key_env,
        has_key=bool(environment.get(key_env)),
        source=str(path) if path else "",
    )


def without_credentials(text: str) -> str:
    """A text whose URLs have lost user and password."""
    return _CREDENTIALS.sub("***@", text)


def _read(path: Path) -> dict[str, str]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    for key, value in data.items():
        if key not in _KEYS:
            raise UsageError(f"{path}: unknown key {key!r}; known keys: {', '.join(_KEYS)}")
        if not isinstance(value, str):
            raise UsageError(f"{path}: {key} is a {type(value).__name__}; expected a string")
    return data
