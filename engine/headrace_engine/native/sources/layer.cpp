// Layers of BERT (arXiv:1810.04805) on rows of float32, put together from the kernels: models/bert_layer.py says the
// same.
//
// For a query of ten tokens, to call each kernel from Python takes as long as two of them compute; and wherever a call
// returns, other threads of the program may take Python's lock and keep the next one waiting.

#include "kernels.h"

// A linear layer or a normalisation.
struct Part {
  const void* weight;  // panels, of a linear layer
  const float* bias;   // or null
  int is_float16;      // panels are
};

struct Layer {
  Part qkv, attended, attended_norm, up, down, norm;
  long width, num_heads, inner;
  float scale, attended_eps, eps;
  int activation;
};

namespace {

int run(const Layer& layer, float* rows, float* work, const int32_t* cu_seqlens, long num_sequences, int num_threads) {
  long num_rows = cu_seqlens[num_sequences], width = layer.width, three = 3 * width;
  float *qkv = work, *attended = qkv + num_rows * three;
  float *out = attended + num_rows * width, *inner = out + num_rows * width;

  auto linear = [&](const Part& part, const float* from, float* to, long inputs, long outputs, int activation) {
    return headrace_linear(part.is_float16, from, part.weight, part.bias, to, num_rows, inputs, outputs, activation,
                           num_threads);
  };
  auto add_norm = [&](const Part& part, float* to, const float* residual, float eps) {
    return headrace_add_norm(0, to, residual, part.weight, part.bias, eps, num_rows, width, num_threads);
  };

  int failed = linear(layer.qkv, rows, qkv, width, three, 0);
  failed |= headrace_attend(0, qkv, qkv + width, qkv + 2 * width, attended, three, three, three, cu_seqlens,
                            num_sequences, layer.num_heads, layer.num_heads, width / layer.num_heads, layer.scale, 0,
                            -1, num_threads);
  failed |= linear(layer.attended, attended, out, width, width, 0);
  failed |= add_norm(layer.attended_norm, out, rows, layer.attended_eps);
  failed |= linear(layer.up, out, inner, width, layer.inner, layer.activation);
  failed |= linear(layer.down, inner, rows, layer.inner, width, 0);
  failed |= add_norm(layer.norm, rows, out, layer.eps);
  return failed;
}

}  // namespace

// rows: [T, width], which the result takes the place of; work: [T, 5 * width + inner], for what comes in between.
// Returns 1 where there was no memory.
EXPORT int headrace_layers(const Layer* layers, long num_layers, float* rows, float* work, const int32_t* cu_seqlens,
                           long num_sequences, int num_threads) {
  int failed = 0;
  for (long i = 0; i < num_layers && !failed; i++)
    failed = run(layers[i], rows, work, cu_seqlens, num_sequences, num_threads);
  return failed;
}
