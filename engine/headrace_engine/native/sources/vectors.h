// A vector of float32 numbers as wide as the processor's registers, and functions of all its lanes at once.
//
// It knows how wide registers are and how numbers are represented. It knows nothing of what is computed with them.
// GCC's and Clang's vector extensions let + and * mean the instruction, so one text serves AVX2 and AVX-512.

#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));

// Bfloat16: the upper half of a float32.
typedef uint16_t Bfloat16;

// IEEE 754's float16.
struct Float16 {
  uint16_t bits;
};

#define INLINE inline __attribute__((always_inline))
// Loops over registers: left rolled, they would go through memory.
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

INLINE Floats load(const float* from) {
  Floats loaded;
  memcpy(&loaded, from, sizeof loaded);
  return loaded;
}

INLINE void store(float* to, Floats stored) { memcpy(to, &stored, sizeof stored); }

INLINE Floats as_floats(Ints bits) { return (Floats)bits; }
INLINE Ints as_ints(Floats numbers) { return (Ints)numbers; }

// The same 32 bits in every lane, whatever they mean.
INLINE Floats splat(float word) {
  int32_t bits;
  memcpy(&bits, &word, sizeof bits);
  return as_floats(Ints{} + bits);
}

// Where both are numbers, the larger; a comparison with NaN is false, so `first` must be what NaN should lose to.
INLINE Floats larger(Floats first, Floats second) { return second > first ? second : first; }

// From bfloat16 and back; to the nearest, halves to even, and NaN to a NaN.
INLINE Floats widen(Halves halves) { return as_floats(__builtin_convertvector(halves, Ints) << 16); }

INLINE Halves narrow(Floats numbers) {
  Ints bits = as_ints(numbers);
  Ints rounded = bits + 0x7fff + ((bits >> 16) & 1);
  Ints quiet = bits | 0x400000;
  return __builtin_convertvector((numbers == numbers ? rounded : quiet) >> 16, Halves);
}

INLINE float widen(Bfloat16 half) {
  uint32_t bits = uint32_t(half) << 16;
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

INLINE Bfloat16 narrow(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return Bfloat16((number == number ? bits + 0x7fff + ((bits >> 16) & 1) : bits | 0x400000) >> 16);
}

// Rows are float32 or bfloat16 in memory and float32 in registers.
INLINE Floats load(const Bfloat16* from) {
  Halves loaded;
  memcpy(&loaded, from, sizeof loaded);
  return widen(loaded);
}

INLINE void store(Bfloat16* to, Floats numbers) {
  Halves stored = narrow(numbers);
  memcpy(to, &stored, sizeof stored);
}

// Float16 the processor converts by itself: to the nearest, halves to even, and what is too large to infinity. (All
// lanes are asked for one by one since GCC 12 warns of its own header where they are not.)
#if defined(__AVX512F__)
INLINE Floats from_float16(__m256i halves) { return (Floats)_mm512_maskz_cvtph_ps(0xffff, halves); }
INLINE __m256i to_float16(Floats numbers) {
  return _mm512_maskz_cvtps_ph(0xffff, (__m512)numbers, _MM_FROUND_TO_NEAREST_INT);
}
#else
INLINE Floats from_float16(__m128i halves) { return (Floats)_mm256_cvtph_ps(halves); }
INLINE __m128i to_float16(Floats numbers) { return _mm256_cvtps_ph((__m256)numbers, _MM_FROUND_TO_NEAREST_INT); }
#endif

INLINE Floats load(const Float16* from) {
  decltype(to_float16(Floats{})) loaded;
  memcpy(&loaded, from, sizeof loaded);
  return from_float16(loaded);
}

INLINE void store(Float16* to, Floats numbers) {
  auto stored = to_float16(numbers);
  memcpy(to, &stored, sizeof stored);
}

INLINE float widen(float number) { return number; }
INLINE void assign(float& to, float number) { to = number; }
INLINE void assign(Bfloat16& to, float number) { to = narrow(number); }

// The lower, or the upper, lanes of two vectors in turn: a0 b0 a1 b1 …
#if defined(__clang__)
#define SHUFFLE(first, second, ...) __builtin_shufflevector(first, second, __VA_ARGS__)
#else
#define SHUFFLE(first, second, ...) __builtin_shuffle(first, second, Ints{__VA_ARGS__})
#endif
#if defined(__AVX512F__)
INLINE Floats zip_low(Floats a, Floats b) {
  return SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
INLINE Floats zip_high(Floats a, Floats b) {
  return SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#else
INLINE Floats zip_low(Floats a, Floats b) { return SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
INLINE Floats zip_high(Floats a, Floats b) { return SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
#endif

// Rows become columns. A round puts the two halves of the rows into each other, as one shuffles cards; number i of row
// r moves from place (r, i) of 2 log2(kLanes) bits to that of the bits turned by one, and after log2(kLanes) rounds to
// (i, r).
INLINE void transpose(Floats (&rows)[kLanes]) {
  UNROLL for (int round = 1; round < kLanes; round *= 2) {
    Floats shuffled[kLanes];
    UNROLL for (int i = 0; i < kLanes / 2; i++) {
      shuffled[2 * i] = zip_low(rows[i], rows[i + kLanes / 2]);
      shuffled[2 * i + 1] = zip_high(rows[i], rows[i + kLanes / 2]);
    }
    UNROLL for (int i = 0; i < kLanes; i++) rows[i] = shuffled[i];
  }
}

// All lanes to one, half against half, in a few steps that do not wait for each other in one long row.
template <class Function>
INLINE float fold(Floats lanes, Function function) {
  typedef float Eight __attribute__((vector_size(32)));
  typedef float Four __attribute__((vector_size(16)));
  float numbers[kLanes];
  store(numbers, lanes);
  Eight eight;
  memcpy(&eight, numbers, sizeof eight);
  if constexpr (kLanes == 16) {
    Eight other;
    memcpy(&other, numbers + 8, sizeof other);
    eight = function(eight, other);
  }
  Four low, high;
  memcpy(&low, &eight, sizeof low);
  memcpy(&high, reinterpret_cast<const char*>(&eight) + sizeof low, sizeof high);
  low = function(low, high);
  return function(function(low[0], low[1]), function(low[2], low[3]));
}

INLINE float sum_of(Floats lanes) {
  return fold(lanes, [](auto first, auto second) { return first + second; });
}

INLINE float largest_of(Floats lanes) {
  return fold(lanes, [](auto first, auto second) { return second > first ? second : first; });
}

// 2^x to 1e-7 of it, for x from -126 to 126; below that it is next to 0, and of NaN it is NaN.
//
// x = n + f with n whole and |f| <= 1/2: 2^f is a polynomial of the fifth degree (fitted for the least largest
// relative error), and n goes straight into the exponent's bits. Adding 1.5 * 2^23 leaves no bits for a fraction, so it
// rounds, and leaves n in the lowest bits.
INLINE Floats exp2(Floats x) {
  constexpr float kRound = 0x1.8p23f;
  x = x < -126.0f ? Floats{} - 126.0f : x;
  Floats shifted = x + kRound;
  Floats f = x - (shifted - kRound);
  Floats power = 0.0013276466634124517f * f + 0.009675541892647743f;
  power = power * f + 0.05550713464617729f;
  power = power * f + 0.24022120237350464f;
  power = power * f + 0.6931469440460205f;
  power = power * f + 1.0000001192092896f;
  return power * as_floats((as_ints(shifted) + 127) << 23);
}

constexpr float kLog2E = 1.44269504088896341f;

// 1 / (1 + e^-x).
INLINE Floats sigmoid(Floats x) {
  Floats power = -kLog2E * x;
  power = power > 126.0f ? Floats{} + 126.0f : power;
  return 1.0f / (1.0f + exp2(power));
}

// GELU (arXiv:1606.08415), x * Phi(x). The tail of the normal distribution is that of Abramowitz and Stegun, 7.1.26,
// for z = |x| / sqrt(2): erfc(z) = (a1 t + ... + a5 t^5) e^(-z^2) with t = 1 / (1 + p z), to 1.5e-7.
INLINE Floats gelu(Floats x) {
  Floats size = x < 0.0f ? -x : x;
  Floats t = 1.0f / (1.0f + (0.3275911f * 0.70710678118654752f) * size);
  Floats tail = 1.061405429f * t - 1.453152027f;
  tail = tail * t + 1.421413741f;
  tail = tail * t - 0.284496736f;
  tail = tail * t + 0.254829592f;
  tail = 0.5f * tail * t * exp2((-0.5f * kLog2E) * x * x);
  return x * (x < 0.0f ? tail : 1.0f - tail);
}

// GELU's other form, by tanh, which some models are trained with: tanh(y) = 2 * sigmoid(2 y) - 1.
INLINE Floats gelu_tanh(Floats x) {
  constexpr float kTwiceRootOfTwoOverPi = 1.5957691216057308f;
  return x * sigmoid(kTwiceRootOfTwoOverPi * (x + 0.044715f * x * x * x));
}
