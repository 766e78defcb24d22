# SPDX-License-Identifier: Apache-2.0
"""TVM's tracker as a process of its own that ends when its standard input does.

TVM's own command leaves a worker behind when it is killed.
"""

from __future__ import annotations

import os
import sys
from threading import Thread

from tvm.rpc.tracker import PopenTrackerServerState

_NUM_PORTS = 100


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main(host: str, port: int) -> None:
    """Serve on the first free port from `port` up, and say which on standard output."""
    Thread(target=_end_with_stdin, daemon=True).start()
    state = PopenTrackerServerState(host, port, port + _NUM_PORTS, silent=True)
    sys.stdout.write(f"{state.port}\n")
    sys.stdout.flush()
    state.thread.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
