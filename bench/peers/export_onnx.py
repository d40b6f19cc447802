"""Writes a model as ONNX, for the peers that read nothing else: `export_onnx.py tokens|pooled|scores MODEL DIRECTORY`.

It knows transformers and torch, and so runs in the environment of sentence-transformers, before anything is measured.
It does not know who will read the file.
"""

import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoModel, AutoModelForSequenceClassification

_OPSET = 17
_EXAMPLE = (2, 8)  # sequences and tokens: both may be anything later
_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]
# What a reader needs besides the graph, under the names that the hub has made usual.
_COMPANIONS = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


class Tokens(torch.nn.Module):
    """Ids, mask and types in, the rows of the last layer out: for who pools by himself."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        # Eager attention: plain products and a softmax are what runtimes know to fuse.
        self.model = AutoModel.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """[batch, length] thrice in, [batch, length, dim] out."""
        rows: torch.Tensor = self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        return rows


class Pooled(Tokens):
    """Ids and mask in, the normalised mean of the rows out."""

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """[batch, length] twice in, [batch, dim] out."""
        weights = mask.unsqueeze(-1).to(torch.float32)
        rows = self.model(input_ids=ids, attention_mask=mask).last_hidden_state * weights
        return torch.nn.functional.normalize(rows.sum(1) / weights.sum(1), dim=1)


class Scores(torch.nn.Module):
    """Ids, mask and types in, logits out."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.model = AutoModelForSequenceClassification.from_pretrained(
            directory, attn_implementation="eager", dtype=torch.float32
        )

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """[batch, length] thrice in, [batch, labels] out."""
        logits: torch.Tensor = self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).logits
        return logits


def export(kind: str, model: Path, directory: Path) -> None:
    """Write model.onnx and its companions."""
    module = {"tokens": Tokens, "pooled": Pooled, "scores": Scores}[kind](model).eval()
    ids = torch.full(_EXAMPLE, 1000)
    examples = (ids, torch.ones_like(ids), torch.zeros_like(ids))[: 2 if kind == "pooled" else 3]
    names = _INPUTS[: len(examples)]
    torch.onnx.export(
        module,
        examples,
        str(directory / "model.onnx"),
        input_names=names,
        output_names=["output"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
        opset_version=_OPSET,
        dynamo=False,
    )
    for name in _COMPANIONS:
        if (model / name).exists():
            shutil.copyfile(model / name, directory / name)


if __name__ == "__main__":
    with torch.inference_mode():
        export(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
