# SPDX-License-Identifier: Apache-2.0
"""Whether an endpoint answers at all, asked in the cheapest way."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from queue import Empty, Queue
from threading import Thread
from typing import Any

from kope_tvm.chat.address import Address
from kope_tvm.config import Endpoint

_REFUSED_KEY = frozenset({401, 403})


def unreachable(endpoint: Endpoint, key: str, timeout_secs: float = 3.0) -> str:
    """Why an endpoint cannot be used, in one line; empty where it answers.

    Any answer will do, since not every server lists its models, but one that refuses the key.
    """
    answers: Queue[str] = Queue()
    Thread(target=lambda: answers.put(_fault(endpoint, key, timeout_secs)), daemon=True).start()
    try:
        # Name look-up and a server that trickles know no limit of their own.
        return answers.get(timeout=timeout_secs)
    except Empty:
        return f"no answer within {timeout_secs:g} s"


def _fault(endpoint: Endpoint, key: str, timeout_secs: float) -> str:
    try:
        request = _request(endpoint.base_url, key.strip())
        with urllib.request.build_opener(_StayHere).open(request, timeout=timeout_secs):
            return ""
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code}: the key is refused" if error.code in _REFUSED_KEY else ""
    except TimeoutError:
        return f"no answer within {timeout_secs:g} s"
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return str(getattr(reason, "strerror", None) or reason or type(error).__name__)


def _request(base_url: str, key: str) -> urllib.request.Request:
    """Ask for the list of models; a user and password of the address stand above the key."""
    address = Address(base_url)
    request = urllib.request.Request(f"{address.url.rstrip('/')}/models")
    authorization = address.authorization or (f"Bearer {key}" if key else "")
    if authorization:
        request.add_header("Authorization", authorization)
    return request


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Takes the key nowhere else; a redirection is an answer too."""

    def redirect_request(self, *_: Any) -> None:
        return None
