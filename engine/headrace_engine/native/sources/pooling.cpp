// Means of the rows of each sequence, summed in float32, row after row, so that they do not depend on the batch.

#include "kernels.h"
#include "parallel.h"
#include "vectors.h"

namespace {

// Below so many numbers the other threads take longer to come than one needs to be done.
constexpr long kAlone = 1 << 16;
// Sums held in registers at a time, while the rows go by.
constexpr int kVectors = 8;

// kVectors vectors of the mean, from column `first` on.
template <class Input>
void mean_wide(const Input* rows, long num_rows, long width, long first, float* out) {
  Floats sum[kVectors] = {};
  for (long row = 0; row < num_rows; row++)
    UNROLL for (int v = 0; v < kVectors; v++) sum[v] += load(rows + row * width + first + v * kLanes);
  UNROLL for (int v = 0; v < kVectors; v++) store(out + first + v * kLanes, sum[v] / float(num_rows));
}

template <class Input>
void mean_of_column(const Input* rows, long num_rows, long width, long column, float* out) {
  float sum = 0;
  for (long row = 0; row < num_rows; row++) sum += widen(rows[row * width + column]);
  out[column] = sum / float(num_rows);
}

template <class Input>
void mean(const void* given, const int32_t* cu_seqlens, const int32_t* skips, float* out, long num_sequences,
          long width, int num_threads) {
  const Input* rows = static_cast<const Input*>(given);
  if ((cu_seqlens[num_sequences] - cu_seqlens[0]) * width < kAlone) num_threads = 1;
  for_each_task(num_sequences, num_threads, [&](long task) {
    long sequence = num_sequences - 1 - task;  // the longest ones, which `pack` puts last, begin
    long start = cu_seqlens[sequence] + (skips == nullptr ? 0 : skips[sequence]);
    long num_rows = cu_seqlens[sequence + 1] - start;
    long column = 0;
    for (; column + kVectors * kLanes <= width; column += kVectors * kLanes)
      mean_wide(rows + start * width, num_rows, width, column, out + sequence * width);
    for (; column < width; column++)
      mean_of_column(rows + start * width, num_rows, width, column, out + sequence * width);
  });
}

}  // namespace

// rows: [T, width], contiguous, float32, or bfloat16 if is_bfloat16; cu_seqlens: [num_sequences + 1]; skips: rows that
// each sequence leaves out at its beginning, fewer than it has, [num_sequences], or null; out: [num_sequences, width].
EXPORT void headrace_mean(int is_bfloat16, const void* rows, const int32_t* cu_seqlens, const int32_t* skips,
                          float* out, long num_sequences, long width, int num_threads) {
  (is_bfloat16 ? mean<Bfloat16> : mean<float>)(rows, cu_seqlens, skips, out, num_sequences, width, num_threads);
}
