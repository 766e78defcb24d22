# SPDX-License-Identifier: Apache-2.0
"""The models of the suite `models`: what their files are called, and the sizes they are run at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kope_tvm.errors import UsageError

FOLDER = Path("build/models")
"""Where `make models` puts what it takes out of wheels."""


@dataclass(frozen=True)
class ZooModel:
    """One model of the suite."""

    name: str
    kind: str
    file: str = ""
    """In `FOLDER`; empty where the suite makes it."""
    dims: Mapping[str, int] = field(default_factory=dict)

    def path(self) -> Path:
        """The file; raises UsageError where it was not fetched."""
        found = FOLDER / self.file
        if not found.is_file():
            raise UsageError(f"{found}: no such file; `make models` fetches the suite's models")
        return found


BLOCK = "decode-block"

ZOO = (
    ZooModel(
        "ocr-classifier",
        "images: which way up a line of text is, of rapidocr-onnxruntime",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x.0": 1, "x.2": 48, "x.3": 192},
    ),
    ZooModel(
        "ocr-detector",
        "images: where text is, of rapidocr-onnxruntime",
        "ch_PP-OCRv4_det_infer.onnx",
        {"x.0": 1, "x.2": 320, "x.3": 320},
    ),
    ZooModel(
        "file-type",
        "text: what a file holds by its first and last bytes, of magika",
        "magika.onnx",
        {"unk__214": 1},
    ),
    ZooModel(
        "voice-activity",
        "audio: a second of speech or none, recurrent, of silero-vad",
        "silero_vad_16k_sequence.onnx",
        {"sequence_length": 32},
    ),
    ZooModel(
        "yolo-detector",
        "images: boxes and classes, of nudenet",
        "320n.onnx",
        {"batch": 1, "height": 320, "width": 320},
    ),
    ZooModel(BLOCK, "language: one token through a layer of TinyLlama's sizes, int4 weights"),
)
