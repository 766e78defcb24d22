# SPDX-License-Identifier: Apache-2.0
"""The experience graph as a person sees it: trees in a terminal, a page in a browser, GraphML."""
