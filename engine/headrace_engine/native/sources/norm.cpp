// Layer normalisation (arXiv:1607.06450) of sums of rows: of what a layer gave and what went around it, or of the
// embeddings of a token.
//
// A row is read once from memory: the passes over it for mean, variance and result find it in the nearest cache.

#include "kernels.h"
#include "parallel.h"
#include "vectors.h"

namespace {

// Below so many numbers the other threads take longer to come than one needs to be done.
constexpr long kAlone = 1 << 14;
constexpr long kRowsOfTask = 16;

template <class Input>
struct Norm {
  const Input* weight;
  const Input* bias;  // null where there is none
  long width;
  float eps;

  long whole() const { return width / kLanes * kLanes; }

  // sums += row; what no vector holds goes number by number.
  void add(float* sums, const Input* row) const {
    for (long i = 0; i < whole(); i += kLanes) store(sums + i, load(sums + i) + load(row + i));
    for (long i = whole(); i < width; i++) sums[i] += widen(row[i]);
  }

  // The sum of f(x) over a row.
  template <class Function>
  INLINE float sum(const float* row, Function function) const {
    Floats lanes = {};
    for (long i = 0; i < whole(); i += kLanes) lanes += function(load(row + i));
    float total = sum_of(lanes);
    for (long i = whole(); i < width; i++) total += function(row[i]);
    return total;
  }

  void finish(const float* sums, Input* out) const {
    float mean = sum(sums, [](auto x) { return x; }) / float(width);
    float variance = sum(sums, [=](auto x) { return (x - mean) * (x - mean); }) / float(width);
    float scale = 1.0f / __builtin_sqrtf(variance + eps);
    for (long i = 0; i < whole(); i += kLanes) {
      Floats normal = (load(sums + i) - mean) * scale * load(weight + i);
      store(out + i, bias ? normal + load(bias + i) : normal);
    }
    for (long i = whole(); i < width; i++) {
      float normal = (sums[i] - mean) * scale * widen(weight[i]);
      assign(out[i], bias ? normal + widen(bias[i]) : normal);
    }
  }

  // out[row] = norm(what add_all(row, sums) adds up), for all rows. Returns whether memory was lacking.
  template <class AddAll>
  bool run(Input* out, long num_rows, int num_threads, AddAll add_all) const {
    std::atomic<bool> failed{false};
    if (num_rows * width < kAlone) num_threads = 1;
    for_each_task((num_rows + kRowsOfTask - 1) / kRowsOfTask, num_threads, [&](long task) {
      static thread_local Scratch scratch;
      float* sums = scratch.of(size_t(width));
      if (sums == nullptr) {
        failed = true;
        return;
      }
      long stop = (task + 1) * kRowsOfTask < num_rows ? (task + 1) * kRowsOfTask : num_rows;
      for (long row = task * kRowsOfTask; row < stop; row++) {
        memset(sums, 0, size_t(width) * sizeof(float));
        add_all(row, sums);
        finish(sums, out + row * width);
      }
    });
    return failed;
  }
};

template <class Input>
bool add_norm(void* given, const void* around, const void* weight, const void* bias, float eps, long num_rows,
              long width, int num_threads) {
  Norm<Input> norm{static_cast<const Input*>(weight), static_cast<const Input*>(bias), width, eps};
  Input* rows = static_cast<Input*>(given);
  const Input* residual = static_cast<const Input*>(around);
  return norm.run(rows, num_rows, num_threads, [&](long row, float* sums) {
    norm.add(sums, rows + row * width);
    if (residual != nullptr) norm.add(sums, residual + row * width);
  });
}

// A table of rows, and which of them each token takes; without `ids` it is the first.
struct Lookup {
  const void* table;  // null where there is none
  const int64_t* ids;
};

template <class Input>
bool embed(const Lookup (&lookups)[3], const void* weight, const void* bias, float eps, void* out, long num_rows,
           long width, int num_threads) {
  Norm<Input> norm{static_cast<const Input*>(weight), static_cast<const Input*>(bias), width, eps};
  return norm.run(static_cast<Input*>(out), num_rows, num_threads, [&](long row, float* sums) {
    for (const Lookup& each : lookups)
      if (each.table != nullptr)
        norm.add(sums, static_cast<const Input*>(each.table) + (each.ids == nullptr ? 0 : each.ids[row]) * width);
  });
}

}  // namespace

// Everything is contiguous; rows and tables are float32, or bfloat16 if is_bfloat16. Sums, mean and variance are
// float32. Both return 1 where there was no memory.

// rows = norm(rows + residual) * weight + bias, where they are. rows: [num_rows, width]; residual: the same, or null;
// weight: [width]; bias: [width], or null.
EXPORT int headrace_add_norm(int is_bfloat16, void* rows, const void* residual, const void* weight, const void* bias,
                             float eps, long num_rows, long width, int num_threads) {
  return (is_bfloat16 ? add_norm<Bfloat16> : add_norm<float>)(rows, residual, weight, bias, eps, num_rows, width,
                                                              num_threads);
}

// out = norm(tokens[token_ids] + positions[position_ids] + segments[segment_ids]) * weight + bias. Tables: [·, width],
// where positions and segments may be null; ids: [num_rows] within them, where null means 0. out: [num_rows, width].
EXPORT int headrace_embed(int is_bfloat16, const void* tokens, const int64_t* token_ids, const void* positions,
                          const int64_t* position_ids, const void* segments, const int64_t* segment_ids,
                          const void* weight, const void* bias, float eps, void* out, long num_rows, long width,
                          int num_threads) {
  const Lookup lookups[3] = {{tokens, token_ids}, {positions, position_ids}, {segments, segment_ids}};
  return (is_bfloat16 ? embed<Bfloat16> : embed<float>)(lookups, weight, bias, eps, out, num_rows, width, num_threads);
}
