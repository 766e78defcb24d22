# SPDX-License-Identifier: Apache-2.0
"""The user's settings: `kope.toml` here or in `$KOPE_HOME`, the environment above both."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from kope_tvm.chat.budget import Price
from kope_tvm.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OPENAI_URL = "https://api.openai.com/v1"
"""Where a model is asked when no address is given."""

_FILE = "kope.toml"
_TEXTS = ("base_url", "api_key_env", "model")
_FLAGS = ("seed",)
_NUMBERS = ("deadline_secs", "max_in_flight", "usd_per_million_input", "usd_per_million_output")
_ON_OFF = {"on": True, "off": False}
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_LONGEST_DEADLINE_SECS = 86400.0
_MOST_IN_FLIGHT = 64
_UNKNOWN_PRICE = Price()


@dataclass(frozen=True)
class Endpoint:
    """Where a model is asked; the key stays in the environment and is never held here."""

    base_url: str = ""
    """Empty is OpenAI's own."""
    model: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    has_key: bool = False
    source: str = ""
    """The settings file; empty where there is none."""
    deadline_secs: float = 60.0
    """The model's share of a round."""
    max_in_flight: int = 4
    """Calls at a time."""
    price: Price = _UNKNOWN_PRICE

    @property
    def missing(self) -> tuple[str, ...]:
        """The variables that still have to be set before a model can be asked."""
        where = f"OPENAI_BASE_URL or {self.api_key_env}"
        wanted = ((self.base_url or self.has_key, where), (self.model, "KOPE_MODEL"))
        return tuple(name for is_there, name in wanted if not is_there)

    @property
    def is_set(self) -> bool:
        return not self.missing

    @property
    def shown_url(self) -> str:
        """The address as it may be shown and remembered: no user, password or query."""
        try:
            parts = urlsplit(self.base_url or OPENAI_URL)
        except ValueError:
            return "malformed base_url"
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def host(self) -> str:
        """The same, host and port alone."""
        return urlsplit(self.shown_url).netloc


def load_endpoint(home: Path, environment: Mapping[str, str] = os.environ) -> Endpoint:
    """The endpoint of the first `kope.toml` found, overridden by the environment.

    Raises UsageError for a malformed file or variable, naming it.
    """
    path = _settings_file(home)
    given = _read(path) if path else {}
    settings = _Settings(given, str(path or ""), environment)
    key_env = _variable(*settings.text("api_key_env", "", "OPENAI_API_KEY"))
    return Endpoint(
        base_url=_url(*settings.text("base_url", "OPENAI_BASE_URL")),
        model=settings.text("model", "KOPE_MODEL")[0],
        api_key_env=key_env,
        has_key=bool(environment.get(key_env)),
        source=str(path) if path else "",
        deadline_secs=_deadline(*settings.number("deadline_secs", "KOPE_DEADLINE_S", 60.0)),
        max_in_flight=_in_flight(*settings.number("max_in_flight", "", 4)),
        price=Price(
            _price(*settings.number("usd_per_million_input", "", 0.0)),
            _price(*settings.number("usd_per_million_output", "", 0.0)),
        ),
    )


def wants_seed(home: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a new memory starts with the experience that ships with kope.

    `KOPE_SEED=off`, or `seed = false` in `kope.toml`, says no. Raises UsageError as
    `load_endpoint` does.
    """
    if told := environment.get("KOPE_SEED"):
        if told.lower() not in _ON_OFF:
            raise UsageError(f"KOPE_SEED {told!r}: expected {' or '.join(_ON_OFF)}")
        return _ON_OFF[told.lower()]
    path = _settings_file(home)
    value = _read(path).get("seed", True) if path else True
    if not isinstance(value, bool):
        raise UsageError(f"{path}: seed is a {type(value).__name__}; expected true or false")
    return value


def without_credentials(text: str) -> str:
    """A text whose URLs have lost user and password."""
    return _CREDENTIALS.sub("***@", text)


@dataclass(frozen=True)
class _Settings:
    """Values, each with the place that it was given at."""

    given: Mapping[str, Any]
    path: str
    environment: Mapping[str, str]

    def text(self, key: str, variable: str, default: str = "") -> tuple[str, str]:
        if value := self.environment.get(variable):
            return value.strip(), variable
        value = self.given.get(key, default)
        if not isinstance(value, str):
            raise UsageError(f"{self.path}: {key} is a {type(value).__name__}; expected a string")
        return value, f"{self.path}: {key}"

    def number(self, key: str, variable: str, default: float) -> tuple[float, str]:
        if text := self.environment.get(variable):
            try:
                return float(text), variable
            except ValueError as error:
                raise UsageError(f"{variable} {text!r}: expected a number") from error
        value = self.given.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"{self.path}: {key} is a {type(value).__name__}; expected a number")
        return value, f"{self.path}: {key}"


def _settings_file(home: Path) -> Path | None:
    return next((folder / _FILE for folder in (Path(), home) if (folder / _FILE).is_file()), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    known = (*_TEXTS, *_NUMBERS, *_FLAGS)
    for key in data:
        if key not in known:
            raise UsageError(f"{path}: unknown key {key!r}; known keys: {', '.join(known)}")
    return data


def _url(value: str, place: str) -> str:
    try:
        parts = urlsplit(value)
        right = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        right = False
    if value and not right:
        shown = "***@" * ("@" in value) + value.rpartition("@")[2]
        raise UsageError(f"{place} {shown!r}: expected an address, e.g. http://127.0.0.1:8080/v1")
    return value


def _variable(value: str, place: str) -> str:
    if not _VARIABLE.fullmatch(value):  # Most likely the key itself: it must not be shown.
        raise UsageError(f"{place} is not a variable's name; expected one such as OPENAI_API_KEY")
    return value


def _deadline(value: float, place: str) -> float:
    if not 0 < value <= _LONGEST_DEADLINE_SECS:
        raise UsageError(f"{place} {value:g}: expected seconds, above 0 and at most a day")
    return float(value)


def _in_flight(value: float, place: str) -> int:
    if value not in range(1, _MOST_IN_FLIGHT + 1):
        raise UsageError(f"{place} {value:g}: expected a whole number from 1 to {_MOST_IN_FLIGHT}")
    return int(value)


def _price(value: float, place: str) -> float:
    if not (value >= 0 and math.isfinite(value)):
        raise UsageError(f"{place} {value:g}: expected US dollars for a million tokens")
    return float(value)
