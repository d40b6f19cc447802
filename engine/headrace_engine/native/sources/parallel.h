// Tasks, and the threads that take them.
//
// It knows how threads are kept and woken. It knows nothing of what a task does.

#pragma once

#include <atomic>
#include <cstdlib>

typedef void (*Body)(void* context);

// Call body(context) from the calling thread, and from up to num_threads - 1 others if they come in time; back when all
// who came are done. See threads.cpp.
void in_parallel(Body body, void* context, int num_threads);

// Call task(i) once for each i below num_tasks, in this order as far as threads come for more, from up to num_threads
// threads; back when all are done.
template <class Task>
void for_each_task(long num_tasks, int num_threads, const Task& task) {
  struct Context {
    const Task& task;
    long num_tasks;
    std::atomic<long> next;
  } context{task, num_tasks, {0}};
  // Whoever is free takes the next one: a core that something else uses for a while holds up no more than its own task.
  Body body = [](void* given) {
    Context& shared = *static_cast<Context*>(given);
    for (long i; (i = shared.next.fetch_add(1, std::memory_order_relaxed)) < shared.num_tasks;) shared.task(i);
  };
  if (num_threads > num_tasks) num_threads = int(num_tasks);
  if (num_threads < 2)
    body(&context);
  else
    in_parallel(body, &context, num_threads);
}

// Memory for a thread's own use, kept from call to call: asked for anew, its pages would be faulted in each time.
class Scratch {
 public:
  ~Scratch() { free(memory_); }

  // `size` floats on a cache line's border, with what is in them left undefined; null where there is no memory.
  float* of(size_t size) {
    if (size > size_) {
      free(memory_);
      size_t bytes = (size * sizeof(float) + 63) / 64 * 64;
      memory_ = static_cast<float*>(aligned_alloc(64, bytes));
      size_ = memory_ == nullptr ? 0 : size;
    }
    return memory_;
  }

 private:
  float* memory_ = nullptr;
  size_t size_ = 0;
};
