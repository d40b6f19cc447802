"""In the place of fuse_onnx.py: writes what it was given, and that it was here."""

import sys
from pathlib import Path

export, directory = map(Path, sys.argv[1:])
directory.joinpath("model.onnx").write_text(f"fused {export.joinpath('model.onnx').read_text()}")
