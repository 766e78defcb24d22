# SPDX-License-Identifier: Apache-2.0
"""The subcommands of `kope`: a file `<name>.py` provides the click command `command`."""
