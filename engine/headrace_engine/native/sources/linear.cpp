// Linear layers in float32: activation(rows * W^T + bias).
//
// Layout. W, [outputs, inputs], is laid out once as panels of kWidth outputs: [panel][input][output within the panel],
// the last one filled up with zeros. So the inner loop reads a panel straight through, whatever the sizes.
//
// Order. A task is a block of rows with a range of panels. The rows of a block, a quarter of the second-level cache,
// meet one panel after the other, a step of its inputs at a time: the weights of a step come from far away once, and
// serve all tiles of the block from the first-level cache. While the last of these tiles is at work, the next step is
// fetched. With few rows there is one block, what takes the time is to read the weights at all, and the threads share
// the panels.
//
// A row is computed the same way in whatever tile it lands, so it is the same, bit for bit, in any batch.

#include "kernels.h"
#include "parallel.h"
#include "tile.h"

namespace {

// 24 sums in the 32 registers of AVX-512, 12 in the 16 of AVX2; see tile.h.
constexpr int kRows = 6;
constexpr int kVectors = kLanes == 16 ? 4 : 2;
constexpr long kWidth = kVectors * kLanes;
constexpr long kBlockFloats = 512 * 1024 / 4;
constexpr long kTasksOfThread = 4;  // so that all are done at about the same time
// Inputs of a panel at a time: 32 KB of weights, which stay in the first-level cache for all tiles of a block.
constexpr long kStep = 128;

enum Activation { kIdentity, kGelu, kGeluTanh, kRelu, kSilu };

template <class Function>
INLINE void each(float* panel, Function function) {
  for (long i = 0; i < kWidth; i += kLanes) store(panel + i, function(load(panel + i)));
}

void activate(float* panel, int activation) {
  switch (activation) {
    case kGelu: return each(panel, [](Floats x) { return gelu(x); });
    case kGeluTanh: return each(panel, [](Floats x) { return gelu_tanh(x); });
    case kRelu: return each(panel, [](Floats x) { return x < 0.0f ? Floats{} : x; });
    case kSilu: return each(panel, [](Floats x) { return x * sigmoid(x); });
    default: return;
  }
}

struct Linear {
  const float* rows;
  const float* panels;
  const float* bias;  // null where there is none
  float* out;
  long num_rows, inputs, outputs;
  int activation;

  // Some inputs of a panel.
  struct Step {
    long panel;
    long input, num_inputs;
    const float* weights;

    const float* next() const { return weights + num_inputs * kWidth; }
  };

  // ROWS rows from `row` on, all outputs of a panel. Between the steps of its inputs the sums wait in `out`.
  template <int ROWS, bool IS_LAST>
  void tile(const Step& step, long row) const {
    float* to = out + row * outputs + step.panel * kWidth;
    long width = outputs - step.panel * kWidth;
    float narrow[ROWS][kWidth];  // of a last panel, whose zeros have no place in the result
    if (width < kWidth) {
      memset(narrow, 0, sizeof narrow);
      for (int r = 0; r < ROWS; r++) memcpy(narrow[r], to + r * outputs, size_t(width) * sizeof(float));
    }
    float* at = width < kWidth ? narrow[0] : to;
    long stride = width < kWidth ? kWidth : outputs;

    Floats sum[ROWS][kVectors];
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < kVectors; v++)
        sum[r][v] = step.input == 0 ? Floats{} : load(at + r * stride + v * kLanes);
    // The last tile of a step has the next one's weights fetched: for a query of 12 tokens that is a fifth of the time.
    multiply<Singles, IS_LAST>(rows + row * inputs + step.input, inputs, step.weights, kWidth, step.num_inputs, sum,
                               step.next());
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < kVectors; v++) store(at + r * stride + v * kLanes, sum[r][v]);

    if (step.input + step.num_inputs == inputs)
      for (int r = 0; r < ROWS; r++) finish(at + r * stride, step.panel);
    if (width < kWidth)
      for (int r = 0; r < ROWS; r++) memcpy(to + r * outputs, narrow[r], size_t(width) * sizeof(float));
  }

  // Bias and activation of a row of a tile, which has just been written and is still in the nearest cache.
  void finish(float* sums, long panel) const {
    if (bias != nullptr) {
      float biases[kWidth] = {};
      long width = outputs - panel * kWidth;
      memcpy(biases, bias + panel * kWidth, size_t(width < kWidth ? width : kWidth) * sizeof(float));
      for (long i = 0; i < kWidth; i += kLanes) store(sums + i, load(sums + i) + load(biases + i));
    }
    if (activation != kIdentity) activate(sums, activation);
  }

  // The tile of the first of `num` rows that are left.
  template <int ROWS = kRows>
  void tile_of(const Step& step, long row, long num) const {
    if (num > ROWS)
      tile<ROWS, false>(step, row);
    else if (num == ROWS)
      tile<ROWS, true>(step, row);
    else if constexpr (ROWS > 1)
      tile_of<ROWS - 1>(step, row, num);
  }

  // A block of rows against a panel: all tiles with one step of inputs after the other.
  void block(long start, long stop, long panel) const {
    for (long input = 0; input < inputs; input += kStep) {
      long num_inputs = inputs - input < kStep ? inputs - input : kStep;
      Step step = {panel, input, num_inputs, panels + (panel * inputs + input) * kWidth};
      for (long row = start; row < stop; row += kRows) tile_of(step, row, stop - row);
    }
  }

  void run(int num_threads) const {
    if (num_rows == 0) return;
    long num_panels = (outputs + kWidth - 1) / kWidth;
    long most = kBlockFloats / (inputs + 1) / kRows * kRows;
    long size = most < kRows ? kRows : most;
    long num_blocks = (num_rows + size - 1) / size;
    long wanted = kTasksOfThread * num_threads;
    long num_ranges = num_blocks >= wanted ? 1 : (wanted + num_blocks - 1) / num_blocks;
    if (num_ranges > num_panels) num_ranges = num_panels;
    for_each_task(num_blocks * num_ranges, num_threads, [&](long task) {
      long start = task / num_ranges * size, range = task % num_ranges;
      long stop = start + size < num_rows ? start + size : num_rows;
      for (long panel = range * num_panels / num_ranges; panel < (range + 1) * num_panels / num_ranges; panel++)
        block(start, stop, panel);
    });
  }
};

}  // namespace

// How many weights the panels of a layer hold.
EXPORT long headrace_panels_size(long inputs, long outputs) {
  return (outputs + kWidth - 1) / kWidth * kWidth * inputs;
}

// Lay out a weight, [outputs, inputs] contiguous, as panels.
EXPORT void headrace_pack_panels(const float* weight, float* panels, long inputs, long outputs) {
  for (long output = 0; output < headrace_panels_size(1, outputs); output++) {
    float* to = panels + output / kWidth * kWidth * inputs + output % kWidth;
    for (long input = 0; input < inputs; input++)
      to[input * kWidth] = output < outputs ? weight[output * inputs + input] : 0;
  }
}

// out = activation(rows * W^T + bias).
//
// rows: [num_rows, inputs], contiguous; panels: of W; bias: [outputs], or null; out: [num_rows, outputs].
EXPORT void headrace_linear(const float* rows, const float* panels, const float* bias, float* out, long num_rows,
                            long inputs, long outputs, int activation, int num_threads) {
  Linear{rows, panels, bias, out, num_rows, inputs, outputs, activation}.run(num_threads);
}
