# SPDX-License-Identifier: Apache-2.0
"""One page, or the same in Markdown, on what a work_dir or a bench came to."""
