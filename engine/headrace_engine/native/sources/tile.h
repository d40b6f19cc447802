// The one inner loop of all products: a tile of a result, held in registers while everything that adds to it goes by.
//
// It knows products of rows with panels. It knows neither whose rows they are nor where a panel was laid out.
//
// A processor adds two products of vectors in each cycle, but reads at most two vectors in the same time, and each sum
// is ready only four cycles after it began. So a tile is a few rows high and a few vectors wide: each number and each
// vector that is read serves many sums, and there are more sums under way than the eight that keep the processor busy.

#pragma once

#include "vectors.h"

constexpr int kLineBytes = 64;  // of the cache

// What a product is made of. A word is 32 bits of a row: one float32, or two bfloat16 that one instruction multiplies
// and adds. A sum is a vector of them, of so many columns of a panel; out of it come vectors of float32.
struct Singles {
  typedef float Input;
  typedef float Panel;
  typedef Floats Sum;
  static constexpr int kPerWord = 1;
  static constexpr int kColumns = kLanes;
  static constexpr bool kReadsFloats = true;
  // kLanes words of numbers that lie side by side.
  static INLINE Floats words(const Input* from) { return load(from); }
  // kLanes words of numbers that lie one above the other, as many rows as make a word.
  static INLINE Floats words(const Input* upper, const Input*) { return load(upper); }
  static INLINE Sum repeat(float word) { return splat(word); }
  static INLINE Sum columns(const Panel* from) { return load(from); }
  static INLINE Sum multiply_add(Sum left, Sum right, Sum sum) { return sum + left * right; }
  static INLINE Floats floats(Sum sum, int) { return sum; }
};

// Bfloat16 that is multiplied as float32, where no instruction multiplies pairs.
struct Widened : Singles {
  typedef Bfloat16 Input;
  static INLINE Floats words(const Input* from) { return load(from); }
  static INLINE Floats words(const Input* upper, const Input*) { return load(upper); }
};

// Panels of float16 that are multiplied as float32: half as much to read.
struct WidenedHalves : Singles {
  typedef Float16 Panel;
  static INLINE Sum columns(const Panel* from) { return load(from); }
};

#if defined(__AVX512BF16__)
struct Pairs : Singles {
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

#if defined(__AVX512FP16__)
// Float16 that is multiplied and added up as float16, twice as many at a time. A sum must stay short: each addition
// rounds to 11 bits, so 64 of them cost about 1/1000 of it, which is half of what rounding both sides of the products
// to bfloat16 costs. Numbers below 6e-5 lose digits one by one, so none errs by more than 3e-8. A word is a number
// twice: so it goes to all lanes in the same way as a float32.
struct ShortSums {
  typedef Float16 Panel;
  typedef __m512h Sum;
  static constexpr int kColumns = 32;
  static constexpr bool kReadsFloats = false;
  static INLINE Floats words(Floats numbers) {
    Ints bits = __builtin_convertvector((Halves)to_float16(numbers), Ints);
    return as_floats(bits | bits << 16);
  }
  static INLINE Sum repeat(float word) { return (Sum)splat(word); }
  static INLINE Sum columns(const Panel* from) { return _mm512_loadu_ph(from); }
  static INLINE Sum multiply_add(Sum left, Sum right, Sum sum) { return _mm512_fmadd_ph(left, right, sum); }
  // The lower or the upper half of the columns.
  static INLINE Floats floats(Sum sum, int half) {
    __m512i bits = _mm512_castph_si512(sum);
    return from_float16(half == 0 ? _mm512_maskz_extracti64x4_epi64(0xf, bits, 0)
                                  : _mm512_maskz_extracti64x4_epi64(0xf, bits, 1));
  }
};
#endif

// sum[r][v] += left[r][s] * right[s][v] over all steps s.
//
// left:   rows of words, `left_stride` apart; each word meets a whole vector.
// right:  steps of VECTORS vectors, `right_stride` apart.
// next:   what will be read after this, as much as all of `right`; if AHEAD, it is fetched meanwhile.
template <class Element, bool AHEAD = false, int ROWS, int VECTORS>
INLINE void multiply(const float* left, long left_stride, const typename Element::Panel* right, long right_stride,
                     long num_steps, typename Element::Sum (&sum)[ROWS][VECTORS],
                     const typename Element::Panel* next = nullptr) {
  for (long step = 0; step < num_steps; step++) {
    if constexpr (AHEAD)
      UNROLL for (int i = 0; i < VECTORS * Element::kColumns; i += kLineBytes / int(sizeof *next))
        __builtin_prefetch(next + step * VECTORS * Element::kColumns + i, 0, 2);
    typename Element::Sum vectors[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++)
      vectors[v] = Element::columns(right + step * right_stride + v * Element::kColumns);
    UNROLL for (int row = 0; row < ROWS; row++) {
      typename Element::Sum word = Element::repeat(left[row * left_stride + step]);
      UNROLL for (int v = 0; v < VECTORS; v++) sum[row][v] = Element::multiply_add(word, vectors[v], sum[row][v]);
    }
  }
}
