# SPDX-License-Identifier: Apache-2.0
"""Where an endpoint is, and apart from it who is to be let in."""

from __future__ import annotations

import base64
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from kope_tvm.config import OPENAI_URL


class Address:
    """A base_url taken apart; a malformed one is kept as it is, for the client to refuse."""

    def __init__(self, base_url: str) -> None:
        """An empty one is OpenAI's."""
        try:
            self._parts = urlsplit(base_url or OPENAI_URL)
        except ValueError:
            self._parts = SplitResult("", "", base_url, "", "")
        self._user, _, self._host = self._parts.netloc.rpartition("@")

    @property
    def url(self) -> str:
        """What to send to, less what is told apart; HTTP clients log it."""
        return self._parts._replace(netloc=self._host, query="", fragment="").geturl()

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self._parts.query))

    @property
    def password(self) -> str:
        return unquote(self._user.partition(":")[2])

    @property
    def authorization(self) -> str:
        """The header that says who the user is; empty where the address names none."""
        token = base64.b64encode(unquote(self._user).encode()).decode()
        return f"Basic {token}" if self._user else ""
