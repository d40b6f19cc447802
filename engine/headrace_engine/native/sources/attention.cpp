// Attention within each sequence of a ragged batch: softmax(scale * Q K^T) V, over what each token may see.
//
// It reads queries, keys and values where a layer left them, and cu_seqlens; it makes nothing as large as a sequence is
// long, squared. The idea is FlashAttention's (arXiv:2205.14135, with the loops of arXiv:2307.08691), for the caches of
// a processor:
//
//   task      a sequence, a head of keys, and some of its rows: queries of all heads that share those keys
//   block     kBlock keys and values, packed once for all rows of the task; they stay in the second-level cache
//   tile      kRows rows against a block:
//               1. scores   = Q K^T       a product; lanes are keys
//               2. mask                   minus infinity where a row does not see
//               3. weights  = 2^(scores - maximum so far), in place; 1 to 3 stay in the nearest cache
//               4. outcome  = outcome * 2^(old maximum - new) + weights V    a product; lanes are a head's numbers
//   at the end, outcome / sum of weights
//
// With the maximum so far in place of the maximum (arXiv:1805.02867) a row never needs more than one block at a time,
// so a sequence may be of any length. Row for row the arithmetic is the same whatever else is in the batch and however
// many threads there are.
//
// Scores, weights and sums are float32. Where the processor multiplies pairs of bfloat16, queries, keys, weights and
// values are rounded to it for the products.

#include "kernels.h"
#include "parallel.h"
#include "tile.h"

namespace {

// 24 sums for both products with AVX-512, 12 with AVX2; see tile.h. With 16 and 8 a sequence of 512 tokens took a
// third, and a tenth, longer in float32. Heads are multiples of kWidth wide.
constexpr int kRows = kLanes == 16 ? 12 : 6;
constexpr int kVectors = 2;
constexpr long kWidth = kVectors * kLanes;
constexpr long kBlock = 256;
// Rows of a task: with more of them a block is packed less often, with fewer no thread waits long for the last task.
// They are whole tiles, so that a row is in the same tile however many threads there are.
constexpr long kMaxRows = 512, kMinRows = 64;
constexpr long kTasksOfThread = 4;
// Products of a batch below which other threads take longer to come than one needs to be done.
constexpr long kAlone = 1 << 18;
// Below any score, and yet a number: minus infinity less minus infinity is none.
constexpr float kLowest = -1e30f;

struct Shape {
  long num_heads, num_kv_heads, head_dim;
  float scale;     // of scores whose power of two is taken: the softmax's scale * log2(e)
  int is_causal;
  long window;     // the farthest that a token sees, to either side
};

template <class Input>
struct Rows {
  Input* data;
  long stride;  // from one token to the next

  Input* at(long token) const { return data + token * stride; }
};

struct Range {
  long first, last;  // one past it
};

long smaller(long a, long b) { return b < a ? b : a; }
long greater(long a, long b) { return b > a ? b : a; }
long up(long number, long multiple) { return (number + multiple - 1) / multiple * multiple; }

// The keys that a row of a sequence sees.
Range seen_by(const Shape& shape, long row, long length) {
  long ahead = shape.is_causal ? 0 : shape.window;
  return {greater(0, row - shape.window), smaller(length, row + ahead + 1)};
}

// What a task works in, of one thread; all of it as words of 32 bits.
struct Memory {
  float* keys;      // [panels of kWidth keys][head_dim / kPerWord][kWidth]
  float* values;    // [kBlock / kPerWord][head_dim]
  float* scores;    // [kRows][kBlock], and then the weights, kPerWord to a word
  float* queries;   // [rows of the task][head_dim / kPerWord]
  float* outcome;   // [rows of the task][head_dim]
  float* maximum;   // [rows of the task]
  float* sum;       // [rows of the task]

  static size_t size(long num_rows, long head_dim) {
    return size_t(2 * kBlock * head_dim + kRows * kBlock + num_rows * (2 * head_dim + 2));
  }

  Memory(float* all, long num_rows, long head_dim) {
    keys = all;
    values = keys + kBlock * head_dim;
    scores = values + kBlock * head_dim;
    outcome = scores + kRows * kBlock;
    queries = outcome + num_rows * head_dim;
    maximum = queries + num_rows * head_dim;
    sum = maximum + num_rows;
  }
};

template <class Element>
class Task {
  typedef typename Element::Input Input;
  static constexpr int kPerWord = Element::kPerWord;

 public:
  Task(const Shape& shape, Memory memory, long length, Range rows)
      : shape_(shape), memory_(memory), words_(shape.head_dim / kPerWord), length_(length), rows_(rows),
        num_rows_(rows.last - rows.first) {}

  // All tensors begin at the sequence's first token and the first head of the group.
  void run(Rows<const Input> query, Rows<const Input> key, Rows<const Input> value, Rows<Input> out) {
    long group = shape_.num_heads / shape_.num_kv_heads, head_dim = shape_.head_dim;
    for (long head = 0; head < group; head++)
      for (long row = 0; row < num_rows_; row++)
        begin(head * num_rows_ + row, query.at(rows_.first + row) + head * head_dim);
    long first = seen_by(shape_, rows_.first, length_).first / kBlock * kBlock;
    long last = seen_by(shape_, rows_.last - 1, length_).last;
    for (long start = first; start < last; start += kBlock) {
      Range block = {start, smaller(start + kBlock, length_)};
      pack_keys(key, block);
      pack_values(value, block);
      for (long head = 0; head < group; head++)
        for (long row = 0; row < num_rows_; row += kRows) tile_of(num_rows_ - row, head, row, block);
    }
    for (long head = 0; head < group; head++)
      for (long row = 0; row < num_rows_; row++)
        finish(head * num_rows_ + row, out.at(rows_.first + row) + head * head_dim);
  }

 private:
  void begin(long row, const Input* query) {
    for (long word = 0; word < words_; word += kLanes)
      store(memory_.queries + row * words_ + word, Element::words(query + word * kPerWord));
    memset(memory_.outcome + row * shape_.head_dim, 0, size_t(shape_.head_dim) * sizeof(float));
    memory_.maximum[row] = kLowest;
    memory_.sum[row] = 0;
  }

  void finish(long row, Input* out) {
    // Where no score was above minus infinity there is no maximum to measure the others by, as in the definition.
    float whole = memory_.maximum[row] > kLowest ? 1.0f / memory_.sum[row] : __builtin_nanf("");
    const float* outcome = memory_.outcome + row * shape_.head_dim;
    for (long i = 0; i < shape_.head_dim; i += kLanes) store(out + i, load(outcome + i) * whole);
  }

  // Lanes are keys, so what lies side by side in a key goes one vector apart. The last panel is filled up with zeros.
  void pack_keys(Rows<const Input> key, Range block) {
    long num_keys = block.last - block.first;
    for (long i = 0; i < up(num_keys, kWidth); i += kLanes)
      for (long word = 0; word < words_; word += kLanes) {
        Floats square[kLanes];
        UNROLL for (int lane = 0; lane < kLanes; lane++) {
          const Input* from = key.at(block.first + i + lane) + word * kPerWord;
          square[lane] = i + lane < num_keys ? Element::words(from) : Floats{};
        }
        transpose(square);
        float* to = memory_.keys + i / kWidth * words_ * kWidth + word * kWidth + i % kWidth;
        UNROLL for (int lane = 0; lane < kLanes; lane++) store(to + lane * kWidth, square[lane]);
      }
  }

  // Lanes are a head's numbers, which lie side by side already; only pairs are made, of a key and the next one. The
  // last one of an odd number has nothing below it.
  void pack_values(Rows<const Input> value, Range block) {
    static const Input nothing[kLanes] = {};
    for (long key = block.first; key < block.last; key += kPerWord) {
      float* to = memory_.values + (key - block.first) / kPerWord * shape_.head_dim;
      for (long i = 0; i < shape_.head_dim; i += kLanes)
        store(to + i, Element::words(value.at(key) + i, key + 1 < block.last ? value.at(key + 1) + i : nothing));
    }
  }

  template <int ROWS = kRows>
  void tile_of(long num, long head, long row, Range block) {
    if (num >= ROWS)
      tile<ROWS>(head * num_rows_ + row, rows_.first + row, block);
    else if constexpr (ROWS > 1)
      tile_of<ROWS - 1>(num, head, row, block);
  }

  // ROWS rows: `index` in this task's memory, `row` in the sequence.
  template <int ROWS>
  void tile(long index, long row, Range block) {
    long first = greater(seen_by(shape_, row, length_).first, block.first);
    long last = smaller(seen_by(shape_, row + ROWS - 1, length_).last, block.last);
    if (first >= last) return;
    // From here on keys count from the block's first, and begin with a whole panel.
    first = (first - block.first) / kWidth * kWidth;
    last -= block.first;
    for (long start = first; start < last; start += kWidth) score<ROWS>(index, start);
    float maximum[kLanes] = {}, kept[kLanes];
    for (int r = 0; r < ROWS; r++)
      maximum[r] = mask(r, index + r, seen_by(shape_, row + r, length_), block, {first, last});
    store(kept, exp2((load_some<ROWS>(memory_.maximum + index) - load(maximum)) * shape_.scale));
    for (int r = 0; r < ROWS; r++) {
      memory_.maximum[index + r] = maximum[r];
      memory_.sum[index + r] = memory_.sum[index + r] * kept[r] + weigh(r, maximum[r], {first, last});
    }
    for (long start = 0; start < shape_.head_dim; start += kWidth) gather<ROWS>(index, start, {first, last}, kept);
  }

  // 1. A panel of scores.
  template <int ROWS>
  void score(long index, long start) {
    Floats sum[ROWS][kVectors] = {};
    multiply<Element>(memory_.queries + index * words_, words_, memory_.keys + start * words_, kWidth, words_, sum);
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < kVectors; v++) store(memory_.scores + r * kBlock + start + v * kLanes, sum[r][v]);
  }

  // 2. One row of scores, of the keys `tile`; returns the maximum so far.
  float mask(int r, long index, Range seen, Range block, Range tile) {
    float* scores = memory_.scores + r * kBlock;
    long whole = up(tile.last, kWidth);
    for (long i = tile.first; i < smaller(seen.first - block.first, whole); i++) scores[i] = -__builtin_inff();
    for (long i = greater(seen.last - block.first, tile.first); i < whole; i++) scores[i] = -__builtin_inff();
    Floats most = splat(memory_.maximum[index]);
    for (long i = tile.first; i < whole; i += kLanes) most = larger(most, load(scores + i));
    return largest_of(most);
  }

  // 3. One row of scores becomes weights; returns their sum.
  float weigh(int r, float maximum, Range tile) {
    float* scores = memory_.scores + r * kBlock;
    Floats sum = {};
    for (long i = tile.first; i < up(tile.last, kWidth); i += kLanes) {
      Floats weights = exp2((load(scores + i) - maximum) * shape_.scale);
      sum += weights;
      put(scores, i, weights);
    }
    return sum_of(sum);
  }

  // 4. kWidth of a head's numbers.
  template <int ROWS>
  void gather(long index, long start, Range tile, const float* kept) {
    float* outcome = memory_.outcome + index * shape_.head_dim + start;
    Floats sum[ROWS][kVectors];
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < kVectors; v++)
        sum[r][v] = load(outcome + r * shape_.head_dim + v * kLanes) * kept[r];
    long first = tile.first / kPerWord, last = up(tile.last, kPerWord) / kPerWord;
    multiply<Element>(memory_.scores + first, kBlock, memory_.values + first * shape_.head_dim + start, shape_.head_dim,
                      last - first, sum);
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int v = 0; v < kVectors; v++) store(outcome + r * shape_.head_dim + v * kLanes, sum[r][v]);
  }

  template <int ROWS>
  static INLINE Floats load_some(const float* from) {
    float some[kLanes] = {};
    memcpy(some, from, ROWS * sizeof(float));
    return load(some);
  }

  // Weights take the place of scores: as many words, or half as many pairs, which begin as far before.
  static INLINE void put(float* scores, long i, Floats weights) {
    if constexpr (kPerWord == 1)
      store(scores + i, weights);
    else
      store(reinterpret_cast<Bfloat16*>(scores) + i, weights);
  }

  const Shape& shape_;
  Memory memory_;
  long words_;
  long length_;
  Range rows_;
  long num_rows_;
};

template <class Element>
int attend(const Shape& shape, const void* query, const void* key, const void* value, void* out, long query_stride,
           long key_stride, long value_stride, const int32_t* cu_seqlens, long num_sequences, int num_threads) {
  typedef typename Element::Input Input;
  if (num_sequences == 0) return 0;
  long group = shape.num_heads / shape.num_kv_heads;
  double num_products = 0;
  for (long i = 0; i < num_sequences; i++) {
    double length = cu_seqlens[i + 1] - cu_seqlens[i];
    num_products += length * length * double(shape.num_heads * shape.head_dim);
  }
  if (num_products < kAlone) num_threads = 1;
  long most_rows = greater(kMinRows, kMaxRows / group);
  long num_tokens = cu_seqlens[num_sequences] - cu_seqlens[0];
  long fair = greater(kMinRows, num_tokens * shape.num_kv_heads / (kTasksOfThread * num_threads));
  long rows_of_task = up(num_threads == 1 ? most_rows : smaller(most_rows, fair), kRows);

  // first_task[i] is that of sequence i; the last sequences are the longest ones as `pack` sorts them, and begin.
  static thread_local Scratch counts;
  long* first_task = reinterpret_cast<long*>(counts.of(size_t(num_sequences + 1) * sizeof(long) / sizeof(float)));
  if (first_task == nullptr) return 1;
  first_task[0] = 0;
  for (long i = 0; i < num_sequences; i++) {
    long length = cu_seqlens[num_sequences - i] - cu_seqlens[num_sequences - i - 1];
    first_task[i + 1] = first_task[i] + (length + rows_of_task - 1) / rows_of_task * shape.num_kv_heads;
  }

  std::atomic<bool> failed{false};
  for_each_task(first_task[num_sequences], num_threads, [&](long number) {
    long low = 0, high = num_sequences;  // first_task[low] <= number < first_task[high]
    while (high - low > 1) (first_task[(low + high) / 2] <= number ? low : high) = (low + high) / 2;
    long sequence = num_sequences - 1 - low;
    long start = cu_seqlens[sequence], length = cu_seqlens[sequence + 1] - start;
    long head = (number - first_task[low]) % shape.num_kv_heads;
    long first_row = (number - first_task[low]) / shape.num_kv_heads * rows_of_task;
    Range rows = {first_row, smaller(first_row + rows_of_task, length)};

    static thread_local Scratch scratch;
    long num_rows = (rows.last - rows.first) * group;
    float* all = scratch.of(Memory::size(num_rows, shape.head_dim));
    if (all == nullptr) {
      failed = true;
      return;
    }
    auto at = [&](auto* data, long stride, long head) { return data + start * stride + head * shape.head_dim; };
    long out_stride = shape.num_heads * shape.head_dim;
    Task<Element>(shape, Memory(all, num_rows, shape.head_dim), length, rows)
        .run({at(static_cast<const Input*>(query), query_stride, head * group), query_stride},
             {at(static_cast<const Input*>(key), key_stride, head), key_stride},
             {at(static_cast<const Input*>(value), value_stride, head), value_stride},
             {at(static_cast<Input*>(out), out_stride, head * group), out_stride});
  });
  return failed;
}

}  // namespace

// See Attention.run, in attention/__init__.py. Returns 1 where there was no memory.
//
// query: [T, num_heads, head_dim]; key, value: [T, num_kv_heads, head_dim]; the heads of a token lie side by side,
// tokens are `stride` numbers apart. out: [T, num_heads, head_dim], contiguous. float32, or bfloat16 if is_bfloat16.
// cu_seqlens: [num_sequences + 1]. head_dim is a multiple of 32. window: -1 is as far as it goes.
EXPORT int headrace_attend(int is_bfloat16, const void* query, const void* key, const void* value, void* out,
                           long query_stride, long key_stride, long value_stride, const int32_t* cu_seqlens,
                           long num_sequences, long num_heads, long num_kv_heads, long head_dim, float scale,
                           int is_causal, long window, int num_threads) {
  const long kFar = 1L << 40;
  Shape shape{num_heads, num_kv_heads, head_dim, scale * kLog2E, is_causal, window < 0 ? kFar : window};
#if defined(__AVX512BF16__)
  auto* halves = attend<Pairs>;
#else
  auto* halves = attend<Widened>;
#endif
  return (is_bfloat16 ? halves : attend<Singles>)(shape, query, key, value, out, query_stride, key_stride, value_stride,
                                                  cu_seqlens, num_sequences, num_threads);
}
