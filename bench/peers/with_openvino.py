"""OpenVINO: Intel's runtime, with the tokenizers library in front.

It knows the runtime's own API, and makes batches by itself, since a runtime has no opinion on texts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import openvino as ov
from adapter import Rows
from crews import size_of_crew
from environments import versions_of
from exported import exported
from serve import Flags, serve
from tokenizers import Encoding, Tokenizer

_PACKAGES = ("openvino", "tokenizers", "numpy")
_PRECISIONS = {"float32": ov.Type.f32, "bfloat16": ov.Type.bf16}
# As of sentence-transformers: measured with texts of 5–60 and of 60–250 words.
_BATCH = 8


class Graph:
    """One model on one infer request: texts in, rows of its output out. Each may run at the same time as others."""

    def __init__(self, tokenizer: Tokenizer, model: ov.CompiledModel) -> None:
        self._tokenizer = tokenizer
        self._names = [port.any_name for port in model.inputs]
        self._request = model.create_infer_request()

    def __call__(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> Rows:
        """[n, outputs], in order."""
        encodings = self._tokenizer.encode_batch(list(texts))
        order = np.argsort([len(encoding) for encoding in encodings], kind="stable")
        parts = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
        rows = np.concatenate([self._infer([encodings[place] for place in part]) for part in parts])
        return rows[np.argsort(order)]

    def _infer(self, encodings: Sequence[Encoding]) -> Rows:
        for encoding in encodings:
            encoding.pad(len(encodings[-1]))  # the longest; what is in the padding is masked
        columns = {
            "input_ids": [encoding.ids for encoding in encodings],
            "attention_mask": [encoding.attention_mask for encoding in encodings],
            "token_type_ids": [encoding.type_ids for encoding in encodings],
        }
        inputs = {name: np.array(columns[name], np.int64) for name in self._names}
        rows: Rows = self._request.infer(inputs, share_inputs=True)[0]
        return rows


class OpenVino:
    """Both models, each with one infer request, and the embedder once more for several callers.

    Attributes:
        crew: As many requests as there are streams, which compute at the same time.

    Raises:
        ValueError: This processor would compute in another precision.
    """

    versions: Mapping[str, str]
    settings: Mapping[str, str]
    crew: Sequence[Graph]

    def __init__(self, flags: Flags) -> None:
        core = ov.Core()
        embedder = exported("pooled", flags.embedder, flags.work)
        scorer = exported("scores", flags.scorer, flags.work)
        plan, tokenizer = core.read_model(embedder / "model.onnx"), _tokenizer(embedder)
        self._embedder = Graph(tokenizer, _compiled(core, plan, flags, "LATENCY"))
        many = _compiled(core, plan, flags, "THROUGHPUT")
        self.crew = [Graph(tokenizer, many) for _ in range(size_of_crew(flags.threads))]
        self._scorer = Graph(
            _tokenizer(scorer), _compiled(core, core.read_model(scorer / "model.onnx"), flags, "LATENCY")
        )
        self.versions = versions_of(_PACKAGES)
        self.settings = {
            "precision": flags.dtype,
            "graph": "ONNX of the transformers model with eager attention; pooling and normalising are in it",
            "hint": "latency, one stream, one infer request",
            "several callers": f"throughput, {len(self.crew)} streams, an infer request each",
            "batch": f"sorted by length, {_BATCH} at most, padded to the longest",
            "threads": str(flags.threads),
        }

    @classmethod
    @contextmanager
    def open(cls, flags: Flags) -> Iterator["OpenVino"]:
        """Load both models, after an export where there is none of these weights."""
        yield cls(flags)

    def embed(self, texts: Sequence[str]) -> Rows:
        """[n, dim], normalised, in order."""
        return self._embedder(texts)

    def score(self, query: str, documents: Sequence[str]) -> Rows:
        """[n] raw logits, in order."""
        return self._scorer([(query, document) for document in documents])[:, 0]


def _tokenizer(directory: Path) -> Tokenizer:
    limit = json.loads((directory / "tokenizer_config.json").read_text("utf-8"))["model_max_length"]
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.enable_truncation(limit)
    tokenizer.no_padding()
    return tokenizer


def _compiled(core: ov.Core, model: ov.Model, flags: Flags, hint: Literal["LATENCY", "THROUGHPUT"]) -> ov.CompiledModel:
    """With all threads in one stream for the latency of one caller, or shared by the streams of a crew."""
    properties = {
        "INFERENCE_PRECISION_HINT": _PRECISIONS[flags.dtype],
        "INFERENCE_NUM_THREADS": flags.threads,
        "PERFORMANCE_HINT": hint,
        "NUM_STREAMS": 1 if hint == "LATENCY" else size_of_crew(flags.threads),
    }
    compiled = core.compile_model(model, "CPU", properties)
    _check_precision(compiled, flags)
    return compiled


def _check_precision(model: ov.CompiledModel, flags: Flags) -> None:
    """A processor without bfloat16 is given float32 without a word."""
    used = model.get_property("INFERENCE_PRECISION_HINT")
    if used != _PRECISIONS[flags.dtype]:
        raise ValueError(f"dtype {flags.dtype}: on this processor OpenVINO computes in {used.to_string()} instead")


if __name__ == "__main__":
    serve(OpenVino.open)
