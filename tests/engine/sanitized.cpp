// Calls the kernels with arrays exactly as large as documented, from several threads, and compares with plain loops.
//
// It is linked to the sources compiled with a sanitizer, which ends it where a kernel reads or writes beside an array,
// does what C++ does not define, or shares what it must not. It knows the C interface and nothing of Python or torch.
//
//   sanitized cases SEED NUMBER   that many cases of each kernel, twice at once; prints how many agreed
//   sanitized short ARRAY         one call with an array that lacks its last row, which must not get through
//   sanitized race                two calls at once that write the same rows, which must not either

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" {
int headrace_attend(int is_bfloat16, const void* query, const void* key, const void* value, void* out,
                    long query_stride, long key_stride, long value_stride, const int32_t* cu_seqlens,
                    long num_sequences, long num_heads, long num_kv_heads, long head_dim, float scale, int is_causal,
                    long window, int num_threads);
long headrace_panels_size(long inputs, long outputs);
void headrace_pack_panels(int is_float16, const float* weight, void* panels, long inputs, long outputs);
int headrace_linear(int is_float16, const float* rows, const void* panels, const float* bias, float* out, long num_rows,
                    long inputs, long outputs, int activation, int num_threads);
int headrace_add_norm(int is_bfloat16, void* rows, const void* residual, const void* weight, const void* bias,
                      float eps, long num_rows, long width, int num_threads);
void headrace_mean(int is_bfloat16, const void* rows, const int32_t* cu_seqlens, const int32_t* skips, float* out,
                   long num_sequences, long width, int num_threads);
}

namespace {

typedef uint16_t Bfloat16;
typedef uint16_t Float16;

float number(float from) { return from; }
float number(Bfloat16 from) {
  uint32_t bits = uint32_t(from) << 16;
  float made;
  memcpy(&made, &bits, sizeof made);
  return made;
}

void assign(float& to, float from) { to = from; }
void assign(Bfloat16& to, float from) {
  uint32_t bits;
  memcpy(&bits, &from, sizeof bits);
  to = Bfloat16(bits >> 16);
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  long up_to(long most) { return long(engine_() % uint32_t(most)) + 1; }
  bool coin() { return engine_() % 2; }
  template <size_t N>
  long one_of(const long (&choices)[N]) { return choices[engine_() % N]; }

  // A block of its own on the heap, of this size and no more.
  template <class T>
  std::vector<T> numbers(long size) {
    std::vector<T> made(size);
    for (T& each : made) assign(each, normal_(engine_));
    return made;
  }

  // Of sequences that are short, or of up to `longest` tokens.
  std::vector<int32_t> cu_seqlens(long num_sequences, long longest) {
    std::vector<int32_t> made(num_sequences + 1);
    for (long i = 0; i < num_sequences; i++) made[i + 1] = made[i] + int32_t(up_to(coin() ? longest : 40));
    return made;
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

// Compares what was found with what should be, number by number.
class Comparison {
 public:
  void add(double found, double expected) {
    apart_ += (found - expected) * (found - expected);
    size_ += expected * expected;
  }

  // Ends the program if they differ by more than this part.
  void check(const char* what, double most) const {
    if (std::sqrt(apart_) <= most * std::sqrt(size_) + kLeast) return;
    fprintf(stderr, "%s is wrong: %g apart, of %g\n", what, std::sqrt(apart_), std::sqrt(size_));
    exit(1);
  }

 private:
  // Of a single number less its mean nothing is left to be a part of.
  static constexpr double kLeast = 1e-6;
  double apart_ = 0, size_ = 0;
};

// Rows of `width` numbers with a gap of what is no number between them, and nothing behind the last one.
template <class T>
struct Tokens {
  long stride;
  std::vector<T> data;

  Tokens(Random& random, long num_tokens, long width) : stride(width + random.one_of({0, 1, 7, 64})) {
    data = random.numbers<T>((num_tokens - 1) * stride + width);
    for (long token = 0; token + 1 < num_tokens; token++)
      for (long i = width; i < stride; i++) assign(data[token * stride + i], NAN);
  }

  const T* at(long token) const { return data.data() + token * stride; }
};

template <class T>
void attend(Random& random) {
  long num_kv_heads = random.up_to(3), num_heads = num_kv_heads * random.one_of({1, 1, 2, 5});
  long head_dim = random.one_of({32, 64, 96, 128, 256});
  long longest = long(std::sqrt(6e6 / double(num_heads * head_dim)));
  std::vector<int32_t> cu_seqlens = random.cu_seqlens(random.up_to(4), longest);
  long num_tokens = cu_seqlens.back(), window = random.one_of({-1, -1, 0, 1, 3, 64, 300});
  float scale = float(random.up_to(20)) * 0.1f / std::sqrt(float(head_dim));
  int is_causal = random.coin();
  Tokens<T> query(random, num_tokens, num_heads * head_dim), key(random, num_tokens, num_kv_heads * head_dim);
  Tokens<T> value(random, num_tokens, num_kv_heads * head_dim);
  std::vector<T> out(num_tokens * num_heads * head_dim);
  if (headrace_attend(sizeof(T) == 2, query.at(0), key.at(0), value.at(0), out.data(), query.stride, key.stride,
                      value.stride, cu_seqlens.data(), long(cu_seqlens.size()) - 1, num_heads, num_kv_heads, head_dim,
                      scale, is_causal, window, int(random.up_to(4))))
    exit(1);

  for (size_t sequence = 0; sequence + 1 < cu_seqlens.size(); sequence++) {
    long start = cu_seqlens[sequence], stop = cu_seqlens[sequence + 1];
    Comparison comparison;
    // A few rows of each: the loops are slow. The last one is at the end of all arrays.
    for (long row = stop - 1; row >= start; row -= random.up_to((stop - start) / 4 + 1))
      for (long head = 0; head < num_heads; head++) {
        long shared = head / (num_heads / num_kv_heads) * head_dim;
        const T* looks = query.at(row) + head * head_dim;
        std::vector<double> mean(head_dim);
        double sum = 0;
        for (long seen = start; seen < stop; seen++) {
          if ((is_causal && seen > row) || (window >= 0 && std::labs(seen - row) > window)) continue;
          double score = 0;
          for (long i = 0; i < head_dim; i++) score += double(number(looks[i])) * number(key.at(seen)[shared + i]);
          double weight = std::exp(score * scale);
          sum += weight;
          for (long i = 0; i < head_dim; i++) mean[i] += weight * number(value.at(seen)[shared + i]);
        }
        const T* found = out.data() + (row * num_heads + head) * head_dim;
        for (long i = 0; i < head_dim; i++) comparison.add(number(found[i]), mean[i] / sum);
      }
    comparison.check("attention", sizeof(T) == 2 ? 0.01 : 1e-5);
  }
}

double activated(double x, int activation) {
  switch (activation) {
    case 1: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case 2: return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case 3: return std::max(x, 0.0);
    case 4: return x / (1 + std::exp(-x));
    default: return x;
  }
}

template <class Panel>
void linear(Random& random) {
  const int kIsFloat16 = sizeof(Panel) == 2;
  long num_rows = random.up_to(random.coin() ? 14 : 300), inputs = random.up_to(random.coin() ? 70 : 700);
  long outputs = random.up_to(random.coin() ? 70 : 200);
  int activation = int(random.up_to(5)) - 1;
  std::vector<float> rows = random.numbers<float>(num_rows * inputs), bias = random.numbers<float>(outputs);
  std::vector<Panel> panels(headrace_panels_size(inputs, outputs));
  std::vector<float> out(num_rows * outputs);
  // A number that float16 cannot hold, whose row is computed another way then.
  if (random.coin()) rows[random.up_to(num_rows * inputs) - 1] = 1e5f;
  // Only the panels are kept, as a layer does.
  std::vector<float> weight = random.numbers<float>(outputs * inputs), kept = weight;
  headrace_pack_panels(kIsFloat16, weight.data(), panels.data(), inputs, outputs);
  std::vector<float>().swap(weight);
  bool has_bias = random.coin();
  if (headrace_linear(kIsFloat16, rows.data(), panels.data(), has_bias ? bias.data() : nullptr, out.data(), num_rows,
                      inputs, outputs, activation, int(random.up_to(4))))
    exit(1);

  Comparison comparison;
  for (long row = num_rows - 1; row >= 0; row -= random.up_to(num_rows / 4 + 1))
    for (long output = 0; output < outputs; output++) {
      double sum = has_bias ? bias[output] : 0;
      for (long i = 0; i < inputs; i++) sum += double(rows[row * inputs + i]) * kept[output * inputs + i];
      comparison.add(out[row * outputs + output], activated(sum, activation));
    }
  comparison.check("a linear layer", kIsFloat16 ? 0.01 : 1e-5);
}

template <class T>
void add_norm(Random& random) {
  long num_rows = random.up_to(random.coin() ? 40 : 300), width = random.up_to(random.coin() ? 40 : 700);
  std::vector<T> rows = random.numbers<T>(num_rows * width), residual = random.numbers<T>(num_rows * width);
  std::vector<T> weight = random.numbers<T>(width), bias = random.numbers<T>(width), out = rows;
  bool has_residual = random.coin(), has_bias = random.coin();
  if (headrace_add_norm(sizeof(T) == 2, out.data(), has_residual ? residual.data() : nullptr, weight.data(),
                        has_bias ? bias.data() : nullptr, 1e-5f, num_rows, width, int(random.up_to(4))))
    exit(1);

  Comparison comparison;
  for (long row = num_rows - 1; row >= 0; row--) {
    std::vector<double> sums(width);
    double mean = 0, variance = 0;
    for (long i = 0; i < width; i++) {
      sums[i] = double(number(rows[row * width + i])) + (has_residual ? number(residual[row * width + i]) : 0);
      mean += sums[i] / double(width);
    }
    for (double sum : sums) variance += (sum - mean) * (sum - mean) / double(width);
    for (long i = 0; i < width; i++) {
      double normal = (sums[i] - mean) / std::sqrt(variance + 1e-5) * number(weight[i]);
      comparison.add(number(out[row * width + i]), normal + (has_bias ? number(bias[i]) : 0));
    }
  }
  comparison.check("a normalised row", sizeof(T) == 2 ? 0.01 : 1e-5);
}

template <class T>
void mean(Random& random) {
  long width = random.up_to(random.coin() ? 40 : 700);
  std::vector<int32_t> cu_seqlens = random.cu_seqlens(random.up_to(4), 100), skips;
  long num_sequences = long(cu_seqlens.size()) - 1;
  for (long i = 0; i < num_sequences; i++)
    skips.push_back(int32_t(random.up_to(cu_seqlens[i + 1] - cu_seqlens[i])) - 1);
  skips.shrink_to_fit();
  std::vector<T> rows = random.numbers<T>(cu_seqlens.back() * width);
  std::vector<float> out(num_sequences * width);
  bool has_skips = random.coin();
  headrace_mean(sizeof(T) == 2, rows.data(), cu_seqlens.data(), has_skips ? skips.data() : nullptr, out.data(),
                num_sequences, width, int(random.up_to(4)));

  Comparison comparison;
  for (long sequence = 0; sequence < num_sequences; sequence++) {
    long start = cu_seqlens[sequence] + (has_skips ? skips[sequence] : 0), stop = cu_seqlens[sequence + 1];
    for (long i = 0; i < width; i++) {
      double sum = 0;
      for (long row = start; row < stop; row++) sum += number(rows[row * width + i]);
      comparison.add(out[sequence * width + i], sum / double(stop - start));
    }
  }
  comparison.check("a mean", 1e-5);
}

// So short that threads which come late for one find the next, which wants fewer of them or more.
void short_calls(Random& random) {
  const long kInputs = 3, kOutputs = 300;
  std::vector<float> weight = random.numbers<float>(kOutputs * kInputs), rows = random.numbers<float>(kInputs);
  std::vector<float> panels(headrace_panels_size(kInputs, kOutputs)), expected(kOutputs);
  headrace_pack_panels(0, weight.data(), panels.data(), kInputs, kOutputs);
  headrace_linear(0, rows.data(), panels.data(), nullptr, expected.data(), 1, kInputs, kOutputs, 0, 1);
  for (long call = 0; call < 2000; call++) {
    std::vector<float> out(kOutputs);
    headrace_linear(0, rows.data(), panels.data(), nullptr, out.data(), 1, kInputs, kOutputs, 0, int(random.up_to(4)));
    Comparison comparison;
    for (long i = 0; i < kOutputs; i++) comparison.add(out[i], expected[i]);
    comparison.check("one of many short calls", 0);
  }
}

void cases(unsigned seed, long number) {
  Random random(seed);
  for (long i = 0; i < number; i++) {
    short_calls(random);
    attend<float>(random);
    attend<Bfloat16>(random);
    linear<float>(random);
    linear<Float16>(random);
    add_norm<float>(random);
    add_norm<Bfloat16>(random);
    mean<float>(random);
    mean<Bfloat16>(random);
  }
}

// Five rows of everything, but only four of the array of this name.
void call_short(const std::string& name) {
  const long kRows = 5, kWidth = 32;
  const int32_t cu_seqlens[] = {0, kRows};
  Random random(0);
  auto rows_of = [&](const char* array) { return random.numbers<float>((name == array ? kRows - 1 : kRows) * kWidth); };
  std::vector<float> query = rows_of("query"), key = rows_of("key"), value = rows_of("value"), out = rows_of("out");
  headrace_attend(0, query.data(), key.data(), value.data(), out.data(), kWidth, kWidth, kWidth, cu_seqlens, 1, 1, 1,
                  kWidth, 1, 0, -1, 2);
  std::vector<float> weight = random.numbers<float>(kWidth * kWidth), panels(headrace_panels_size(kWidth, kWidth));
  headrace_pack_panels(0, weight.data(), panels.data(), kWidth, kWidth);
  std::vector<float> rows = rows_of("rows"), made = rows_of("made");
  headrace_linear(0, rows.data(), panels.data(), nullptr, made.data(), kRows, kWidth, kWidth, 0, 2);
  std::vector<float> normal = rows_of("normal"), residual = rows_of("residual");
  headrace_add_norm(0, normal.data(), residual.data(), weight.data(), nullptr, 1, kRows, kWidth, 2);
}

void race() {
  Random random(0);
  std::vector<float> rows = random.numbers<float>(2000 * 64), weight = random.numbers<float>(64);
  auto call = [&] { headrace_add_norm(0, rows.data(), nullptr, weight.data(), nullptr, 1, 2000, 64, 2); };
  std::thread other(call);
  call();
  other.join();
}

}  // namespace

int main(int count, char** arguments) {
  std::string what = count > 1 ? arguments[1] : "";
  if (what == "cases" && count == 4) {
    unsigned seed = unsigned(atoi(arguments[2]));
    long number = atol(arguments[3]);
    // Two at once, as two lanes in one process would.
    std::thread other(cases, seed + 1, number);
    cases(seed, number);
    other.join();
    printf("%ld cases agree\n", 18 * number);
  } else if (what == "short" && count == 3) {
    call_short(arguments[2]);
  } else if (what == "race") {
    race();
  } else {
    return 2;
  }
  return 0;
}
