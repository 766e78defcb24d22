# SPDX-License-Identifier: Apache-2.0
"""Every exception a caller can act on; a bad proposal is a Verdict, never one of these."""

from __future__ import annotations


class KopeError(Exception):
    """The work failed: a device, a gate or the environment (exit code 1)."""


class UsageError(KopeError):
    """The call was wrong: a name, a file or an option (exit code 2)."""


class ModelError(UsageError):
    """The model cannot be read or imported; the message names the file, node or operator."""


class TargetError(UsageError):
    """The target is unknown, malformed or rejected by LLVM."""


class WorkDirError(UsageError):
    """The work_dir cannot be used: another target's, not writable, or damaged."""


class StorageError(KopeError):
    """A write failed (disk full, read-only); everything recorded before it is kept."""


class VersionError(KopeError, ImportError):
    """The installed apache-tvm and apache-tvm-ffi are not the pair that works."""
