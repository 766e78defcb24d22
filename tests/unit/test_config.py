# SPDX-License-Identifier: Apache-2.0
"""Settings come from where they should, and a wrong one is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope_tvm.chat.budget import Price
from kope_tvm.config import Endpoint, load_endpoint, without_credentials
from kope_tvm.errors import UsageError

SECRET = "sk-never-to-be-seen"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder beside the folder that one works in."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    return home


def write(folder: Path, text: str) -> None:
    (folder / "kope.toml").write_text(text, encoding="utf-8")


def test_without_any_settings_nobody_is_asked(home: Path) -> None:
    found = load_endpoint(home, {})
    assert found == Endpoint()
    assert (found.deadline_secs, found.max_in_flight, found.price) == (60.0, 4, Price())
    assert found.missing == ("OPENAI_BASE_URL or OPENAI_API_KEY", "KOPE_MODEL")


@pytest.mark.parametrize(
    ("environment", "missing"),
    [
        ({"OPENAI_BASE_URL": "http://a/v1"}, ("KOPE_MODEL",)),
        ({"OPENAI_API_KEY": SECRET}, ("KOPE_MODEL",)),
        ({"KOPE_MODEL": "m"}, ("OPENAI_BASE_URL or OPENAI_API_KEY",)),
        ({"KOPE_MODEL": "m", "OPENAI_BASE_URL": "http://a/v1"}, ()),
        ({"KOPE_MODEL": "m", "OPENAI_API_KEY": SECRET}, ()),
    ],
)
def test_an_endpoint_is_set_by_a_model_and_an_address_or_a_key(
    home: Path, environment: dict[str, str], missing: tuple[str, ...]
) -> None:
    found = load_endpoint(home, environment)
    assert (found.missing, found.is_set) == (missing, not missing)


def test_environment_stands_above_the_settings_file(home: Path) -> None:
    write(
        home,
        'base_url = "http://a/v1"\nmodel = "file"\napi_key_env = "MY_KEY"\ndeadline_secs = 5\n'
        "max_in_flight = 2\nusd_per_million_input = 2\nusd_per_million_output = 8.5\n",
    )
    found = load_endpoint(home, {"KOPE_MODEL": "env", "MY_KEY": SECRET, "KOPE_DEADLINE_S": "7.5"})
    assert (found.base_url, found.model, found.has_key) == ("http://a/v1", "env", True)
    assert (found.deadline_secs, found.max_in_flight) == (7.5, 2)
    assert found.price == Price(2.0, 8.5)
    assert load_endpoint(home, {}).deadline_secs == 5.0
    assert SECRET not in repr(found)


def test_settings_in_the_home_folder_are_second_to_those_here(home: Path) -> None:
    write(home, 'model = "home"\n')
    assert load_endpoint(home, {}).model == "home"
    write(Path(), 'model = "here"\n')
    assert load_endpoint(home, {}).model == "here"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base_url = \n", "not TOML"),
        ("a = 1\n", "unknown key 'a'; known keys: base_url, api_key_env, model, deadline_secs"),
        ("model = 1\n", "model is a int; expected a string"),
        ("deadline_secs = true\n", "deadline_secs is a bool; expected a number"),
        ('deadline_secs = "60"\n', "deadline_secs is a str; expected a number"),
        ("deadline_secs = 0\n", "deadline_secs 0: expected seconds, above 0 and at most a day"),
        ("deadline_secs = nan\n", "deadline_secs nan: expected seconds"),
        ("max_in_flight = 0\n", "max_in_flight 0: expected a whole number from 1 to 64"),
        ("max_in_flight = 2.5\n", "max_in_flight 2.5: expected a whole number"),
        ("usd_per_million_input = -1\n", "usd_per_million_input -1: expected US dollars"),
        ("usd_per_million_output = inf\n", "usd_per_million_output inf: expected US dollars"),
        ('base_url = "host:80/v1"\n', "base_url 'host:80/v1': expected an address, e.g. http://"),
        ('base_url = "http://[::1/v1"\n', "expected an address"),
        ('base_url = "file:///etc/passwd"\n', "expected an address"),
    ],
)
def test_a_malformed_file_is_refused_by_name(home: Path, text: str, message: str) -> None:
    write(home, text)
    with pytest.raises(UsageError) as caught:
        load_endpoint(home, {})
    assert str(caught.value).startswith(f"{home / 'kope.toml'}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("KOPE_DEADLINE_S", "soon", "KOPE_DEADLINE_S 'soon': expected a number"),
        ("KOPE_DEADLINE_S", "-1", "KOPE_DEADLINE_S -1: expected seconds"),
        ("OPENAI_BASE_URL", "localhost", "OPENAI_BASE_URL 'localhost': expected an address"),
    ],
)
def test_a_malformed_variable_is_refused_by_name(
    home: Path, variable: str, value: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load_endpoint(home, {variable: value})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text", [f'api_key_env = "{SECRET}"\n', f'base_url = "me:{SECRET}@host/v1"\n']
)
def test_a_secret_in_the_wrong_place_is_not_shown(home: Path, text: str) -> None:
    write(home, text)
    with pytest.raises(UsageError) as caught:
        load_endpoint(home, {})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "shown", "host"),
    [
        ("", "https://api.openai.com/v1", "api.openai.com"),
        (f"https://me:{SECRET}@h:81/v1?key={SECRET}", "https://h:81/v1", "h:81"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1", "[::1]:8080"),
        ("http://[::1/v1", "malformed base_url", ""),
    ],
)
def test_an_address_is_shown_without_what_is_secret(base_url: str, shown: str, host: str) -> None:
    found = Endpoint(base_url=base_url)
    assert (found.shown_url, found.host) == (shown, host)


def test_passwords_leave_urls() -> None:
    assert without_credentials("postgresql://u:p@db/x") == "postgresql://***@db/x"
