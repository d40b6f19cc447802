// The interface of the library; calls.py declares the same in Python. What arguments mean stands where each is defined.

#pragma once

#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int headrace_abi();
EXPORT int headrace_attend(int is_bfloat16, const void* query, const void* key, const void* value, void* out,
                           long query_stride, long key_stride, long value_stride, const int32_t* cu_seqlens,
                           long num_sequences, long num_heads, long num_kv_heads, long head_dim, float scale,
                           int is_causal, long window, int num_threads);
EXPORT long headrace_panels_size(long inputs, long outputs);
EXPORT void headrace_pack_panels(int is_float16, const float* weight, void* panels, long inputs, long outputs);
EXPORT int headrace_linear(int is_float16, const float* rows, const void* panels, const float* bias, float* out,
                           long num_rows, long inputs, long outputs, int activation, int num_threads);
EXPORT int headrace_add_norm(int is_bfloat16, void* rows, const void* residual, const void* weight, const void* bias,
                             float eps, long num_rows, long width, int num_threads);
EXPORT int headrace_embed(int is_bfloat16, const void* tokens, const int64_t* token_ids, const void* positions,
                          const int64_t* position_ids, const void* segments, const int64_t* segment_ids,
                          const void* weight, const void* bias, float eps, void* out, long num_rows, long width,
                          int num_threads);
EXPORT void headrace_mean(int is_bfloat16, const void* rows, const int32_t* cu_seqlens, const int32_t* skips,
                          float* out, long num_sequences, long width, int num_threads);
struct Layer;
EXPORT int headrace_layers(const Layer* layers, long num_layers, float* rows, float* work, const int32_t* cu_seqlens,
                           long num_sequences, int num_threads);
