"""Joins what ONNX Runtime has one kernel for, as its authors advise: `fuse_onnx.py EXPORT DIRECTORY`.

It knows onnxruntime.transformers, and so runs in the environment of fastembed, with the version that runs the graph
later: at load, ONNX Runtime joins no attention by itself. It does not know who exported the graph.
https://onnxruntime.ai/docs/performance/transformers-optimization.html
"""

import json
import shutil
import sys
from pathlib import Path

from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model


def fuse(export: Path, directory: Path) -> None:
    """Write model.onnx, fused.json with the number of nodes of each kind that came of it, and the export's companions.

    Only BERT's layout is known here.
    """
    shutil.copytree(export, directory, ignore=shutil.ignore_patterns("made-of", "model.onnx"), dirs_exist_ok=True)
    config = json.loads((export / "config.json").read_text("utf-8"))
    model = optimize_model(
        str(export / "model.onnx"),
        model_type="bert",
        num_heads=config["num_attention_heads"],
        hidden_size=config["hidden_size"],
        optimization_options=_options(),
        opt_level=0,  # a higher one asks for torch, and the runtime does the same at load
    )
    model.save_model_to_file(str(directory / "model.onnx"))
    counts = {kind: count for kind, count in model.get_fused_operator_statistics().items() if count}
    (directory / "fused.json").write_text(json.dumps(counts), "utf-8")


def _options() -> FusionOptions:
    options = FusionOptions("bert")
    # Of 1.32's kernels on a CPU these are slower than the sums and the LayerNormalization that they stand for: with
    # them a text of 128 tokens took 7 % longer than without any fusion, and without them 2 % less.
    options.enable_skip_layer_norm = False
    options.enable_bias_skip_layer_norm = False
    options.enable_embed_layer_norm = False
    return options


if __name__ == "__main__":
    fuse(Path(sys.argv[1]), Path(sys.argv[2]))
