# SPDX-License-Identifier: Apache-2.0
"""What a compiled model can be turned into for other programs, one file a kind.

`<name>.py` provides a class of that name, made with what `kope_tvm.evidence` knows of the model;
`export(artifact, out_dir)` writes into a folder that exists and returns the files it wrote.
"""
