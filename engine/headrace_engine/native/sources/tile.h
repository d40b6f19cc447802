// The one inner loop of all products: a tile of a result, held in registers while everything that adds to it goes by.
//
// It knows products of rows with panels. It knows neither whose rows they are nor where a panel was laid out.
//
// A processor adds two products of vectors in each cycle, but reads at most two vectors in the same time, and each sum
// is ready only four cycles after it began. So a tile is a few rows high and a few vectors wide: each number and each
// vector that is read serves many sums, and there are more sums under way than the eight that keep the processor busy.

#pragma once

#include "vectors.h"

constexpr int kLineFloats = 16;  // of a cache line

// What a product is made of. A word is 32 bits: one float32, or two bfloat16 that one instruction multiplies and adds.
struct Singles {
  typedef float Input;
  static constexpr int kPerWord = 1;
  // kLanes words of numbers that lie side by side.
  static INLINE Floats words(const Input* from) { return load(from); }
  // kLanes words of numbers that lie one above the other, as many rows as make a word.
  static INLINE Floats words(const Input* upper, const Input*) { return load(upper); }
  static INLINE Floats multiply_add(Floats left, Floats right, Floats sum) { return sum + left * right; }
};

// Bfloat16 that is multiplied as float32, where no instruction multiplies pairs.
struct Widened : Singles {
  typedef Bfloat16 Input;
  static INLINE Floats words(const Input* from) { return load(from); }
  static INLINE Floats words(const Input* upper, const Input*) { return load(upper); }
};

#if defined(__AVX512BF16__)
#include <immintrin.h>

struct Pairs {
  typedef Bfloat16 Input;
  static constexpr int kPerWord = 2;
  static INLINE Floats words(const Input* from) {
    Floats words;
    memcpy(&words, from, sizeof words);
    return words;
  }
  static INLINE Floats words(const Input* upper, const Input* lower) {
    return as_floats(as_ints(load(lower)) | (as_ints(load(upper)) >> 16 & 0xffff));
  }
  static INLINE Floats multiply_add(Floats left, Floats right, Floats sum) {
    return (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
  }
};
#endif

// sum[r][v] += left[r][s] * right[s][v] over all steps s.
//
// left:   rows of words, `left_stride` apart; each word meets a whole vector.
// right:  steps of VECTORS vectors of words, `right_stride` apart.
// next:   what will be read after this, as much as all of `right`; if AHEAD, it is fetched meanwhile.
template <class Element, bool AHEAD = false, int ROWS, int VECTORS>
INLINE void multiply(const float* left, long left_stride, const float* right, long right_stride, long num_steps,
                     Floats (&sum)[ROWS][VECTORS], const float* next = nullptr) {
  for (long step = 0; step < num_steps; step++) {
    if constexpr (AHEAD)
      UNROLL for (int i = 0; i < VECTORS * kLanes; i += kLineFloats)
        __builtin_prefetch(next + step * VECTORS * kLanes + i, 0, 2);
    Floats vectors[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) vectors[v] = load(right + step * right_stride + v * kLanes);
    UNROLL for (int row = 0; row < ROWS; row++) {
      Floats word = splat(left[row * left_stride + step]);
      UNROLL for (int v = 0; v < VECTORS; v++) sum[row][v] = Element::multiply_add(word, vectors[v], sum[row][v]);
    }
  }
}
