# SPDX-License-Identifier: Apache-2.0
"""What kope knows: one schedule rule a file, `<op>_<isa>.py` with `schedule(func, target)`."""
