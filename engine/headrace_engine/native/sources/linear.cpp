// Linear layers on rows of float32: activation(rows * W^T + bias).
//
// Layout. W, [outputs, inputs], is laid out once as panels of kWidth outputs: [panel][input][output within the panel],
// the last one filled up with zeros. So the inner loop reads a panel straight through, whatever the sizes. Panels are
// float32, or float16, of which there is half as much to read.
//
// Order. A task is a block of rows with a range of panels. The rows of a block, a quarter of the second-level cache,
// meet one panel after the other, a step of its inputs at a time: the weights of a step come from far away once, and
// serve all tiles of the block from the first-level cache. While the last of these tiles is at work, the next step is
// fetched. With few rows there is one block, what takes the time is to read the weights at all, and the threads share
// the panels.
//
// Arithmetic. Sums of a step are added up in float32. Where the processor adds float16, twice as many at a time, rows
// that meet float16 are rounded to it too, and a step is short enough for its sums to keep their digits; what was too
// large for float16 after all is computed once more in float32. A row is computed the same way in whatever tile it
// lands, so it is the same, bit for bit, in any batch.

#include "kernels.h"
#include "parallel.h"
#include "tile.h"

namespace {

constexpr long kWidth = kLanes == 16 ? 64 : 16;
// Vectors of a tile: of the 32 registers of AVX-512, or of the 16 of AVX2; see tile.h.
constexpr int kSums = kLanes == 16 ? 24 : 12;
constexpr long kBlockFloats = 512 * 1024 / 4;
constexpr long kTasksOfThread = 4;  // so that all are done at about the same time

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

// Whether all are numbers below infinity: of those the difference to itself is 0.
INLINE bool are_finite(const float* panel) {
  Floats differences = {};
  for (long i = 0; i < kWidth; i += kLanes) differences += load(panel + i) - load(panel + i);
  return sum_of(differences) == 0;
}

template <class Element>
struct Linear {
  typedef typename Element::Panel Panel;
  static constexpr int kVectors = int(kWidth) / Element::kColumns;
  static constexpr int kRows = kSums / kVectors;
  // Inputs of a panel at a time: at most 32 KB of weights, which stay in the first-level cache for all tiles of a
  // block.
  static constexpr long kStep = Element::kReadsFloats ? 128 : 64;

  const float* rows;
  const Panel* panels;
  const float* bias;  // null where there is none
  float* out;
  long num_rows, inputs, outputs;
  int activation;

  // Some inputs of a panel.
  struct Step {
    long panel;
    long input, num_inputs;
    const Panel* weights;

    const Panel* next() const { return weights + num_inputs * kWidth; }
  };

  // Some rows, and their words.
  struct Block {
    long start, stop;
    const float* words;
  };

  // ROWS rows from `row` on, all outputs of a panel. The steps of its inputs add up in `out`.
  template <int ROWS, bool IS_LAST>
  void tile(const Block& block, const Step& step, long row) const {
    float* to = out + row * outputs + step.panel * kWidth;
    long width = outputs - step.panel * kWidth;
    float narrow[ROWS][kWidth];  // of a last panel, whose zeros have no place in the result
    if (width < kWidth) {
      memset(narrow, 0, sizeof narrow);
      for (int r = 0; r < ROWS; r++) memcpy(narrow[r], to + r * outputs, size_t(width) * sizeof(float));
    }
    float* at = width < kWidth ? narrow[0] : to;
    long stride = width < kWidth ? kWidth : outputs;

    typename Element::Sum sum[ROWS][kVectors] = {};
    // The last tile of a step has the next one's weights fetched: for a query of 12 tokens that is a fifth of the time.
    multiply<Element, IS_LAST>(block.words + (row - block.start) * inputs + step.input, inputs, step.weights, kWidth,
                               step.num_inputs, sum, step.next());
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int i = 0; i < kWidth / kLanes; i++) {
        constexpr int kEach = Element::kColumns / kLanes;
        float* so_far = at + r * stride + i * kLanes;
        Floats more = Element::floats(sum[r][i / kEach], i % kEach);
        store(so_far, step.input == 0 ? more : load(so_far) + more);
      }

    if (step.input + step.num_inputs == inputs)
      for (int r = 0; r < ROWS; r++) finish(at + r * stride, row + r, step.panel);
    if (width < kWidth)
      for (int r = 0; r < ROWS; r++) memcpy(to + r * outputs, narrow[r], size_t(width) * sizeof(float));
  }

  // Bias and activation of a row of a tile, which has just been written and is still in the nearest cache.
  void finish(float* sums, long row, long panel) const {
    if constexpr (!Element::kReadsFloats)
      if (!are_finite(sums)) once_more(sums, row, panel);
    if (bias != nullptr) {
      float biases[kWidth] = {};
      long width = outputs - panel * kWidth;
      memcpy(biases, bias + panel * kWidth, size_t(width < kWidth ? width : kWidth) * sizeof(float));
      for (long i = 0; i < kWidth; i += kLanes) store(sums + i, load(sums + i) + load(biases + i));
    }
    if (activation != kIdentity) activate(sums, activation);
  }

  // A row of a panel in float32.
  void once_more(float* sums, long row, long panel) const {
    Floats sum[1][kWidth / kLanes] = {};
    multiply<WidenedHalves>(rows + row * inputs, inputs, panels + panel * inputs * kWidth, kWidth, inputs, sum);
    for (long i = 0; i < kWidth / kLanes; i++) store(sums + i * kLanes, sum[0][i]);
  }

  // The tile of the first of `num` rows that are left.
  template <int ROWS = kRows>
  void tile_of(const Block& block, const Step& step, long row, long num) const {
    if (num > ROWS)
      tile<ROWS, false>(block, step, row);
    else if (num == ROWS)
      tile<ROWS, true>(block, step, row);
    else if constexpr (ROWS > 1)
      tile_of<ROWS - 1>(block, step, row, num);
  }

  // All tiles of a block against a panel, with one step of inputs after the other.
  void against(const Block& block, long panel) const {
    for (long input = 0; input < inputs; input += kStep) {
      long num_inputs = inputs - input < kStep ? inputs - input : kStep;
      Step step = {panel, input, num_inputs, panels + (panel * inputs + input) * kWidth};
      for (long row = block.start; row < block.stop; row += kRows) tile_of(block, step, row, block.stop - row);
    }
  }

  // Rows as tiles read them: as they are, or made in the memory of this thread. Null where there is none.
  const float* words_of(long start, long stop) const {
    const float* from = rows + start * inputs;
    if constexpr (Element::kReadsFloats) {
      return from;
    } else {
      static thread_local Scratch scratch;
      long size = (stop - start) * inputs, whole = size / kLanes * kLanes;
      float* words = scratch.of(size_t(whole + kLanes));
      if (words == nullptr) return nullptr;
      for (long i = 0; i < whole; i += kLanes) store(words + i, Element::words(load(from + i)));
      float rest[kLanes] = {};
      memcpy(rest, from + whole, size_t(size - whole) * sizeof(float));
      store(words + whole, Element::words(load(rest)));
      return words;
    }
  }

  // 1 where there was no memory.
  int run(int num_threads) const {
    if (num_rows == 0) return 0;
    long num_panels = (outputs + kWidth - 1) / kWidth;
    long most = kBlockFloats / (inputs + 1) / kRows * kRows;
    long size = most < kRows ? kRows : most;
    long num_blocks = (num_rows + size - 1) / size;
    long wanted = kTasksOfThread * num_threads;
    long num_ranges = num_blocks >= wanted ? 1 : (wanted + num_blocks - 1) / num_blocks;
    if (num_ranges > num_panels) num_ranges = num_panels;
    std::atomic<bool> failed{false};
    for_each_task(num_blocks * num_ranges, num_threads, [&](long task) {
      long start = task / num_ranges * size, range = task % num_ranges;
      long stop = start + size < num_rows ? start + size : num_rows;
      Block block = {start, stop, words_of(start, stop)};
      if (block.words == nullptr) {
        failed = true;
        return;
      }
      for (long panel = range * num_panels / num_ranges; panel < (range + 1) * num_panels / num_ranges; panel++)
        against(block, panel);
    });
    return failed;
  }
};

#if defined(__AVX512FP16__)
typedef Linear<ShortSums> LinearOfHalves;
#else
typedef Linear<WidenedHalves> LinearOfHalves;
#endif

template <class Number>
void pack(const float* weight, Number* to, long inputs, long outputs) {
  for (long first = 0; first < outputs; first += kWidth)
    for (long input = 0; input < inputs; input++, to += kWidth) {
      float column[kWidth] = {};
      for (long i = 0; i < kWidth && first + i < outputs; i++) column[i] = weight[(first + i) * inputs + input];
      for (long i = 0; i < kWidth; i += kLanes) store(to + i, load(column + i));
    }
}

}  // namespace

// How many weights the panels of a layer hold.
EXPORT long headrace_panels_size(long inputs, long outputs) {
  return (outputs + kWidth - 1) / kWidth * kWidth * inputs;
}

// Lay out a weight, [outputs, inputs] contiguous, as panels of float32 or float16.
EXPORT void headrace_pack_panels(int is_float16, const float* weight, void* panels, long inputs, long outputs) {
  if (is_float16)
    pack(weight, static_cast<Float16*>(panels), inputs, outputs);
  else
    pack(weight, static_cast<float*>(panels), inputs, outputs);
}

// out = activation(rows * W^T + bias).
//
// rows: [num_rows, inputs], contiguous; panels: of W; bias: [outputs], or null; out: [num_rows, outputs]. Returns 1
// where there was no memory.
EXPORT int headrace_linear(int is_float16, const float* rows, const void* panels, const float* bias, float* out,
                           long num_rows, long inputs, long outputs, int activation, int num_threads) {
  if (!is_float16) {
    const float* singles = static_cast<const float*>(panels);
    return Linear<Singles>{rows, singles, bias, out, num_rows, inputs, outputs, activation}.run(num_threads);
  }
  const Float16* halves = static_cast<const Float16*>(panels);
  return LinearOfHalves{rows, halves, bias, out, num_rows, inputs, outputs, activation}.run(num_threads);
}
