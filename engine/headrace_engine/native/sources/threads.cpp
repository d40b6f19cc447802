// Threads that wait for work: awake for a moment, then asleep.
//
// OpenMP, which torch computes with, begins and ends a parallel region with all its threads. Where cores are shared,
// with a broker, a tokenizer or other tenants, each region then waits for the slowest of them to get a core; and so
// that they are there in time, its threads spin for milliseconds after a region, on the cores that the others need.
// Here whoever calls begins at once, takes tasks itself, and waits for nobody but those who have taken one. A thread
// that is late finds nothing left to do.

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include "parallel.h"

namespace {

// Between two kernels of a step pass some 10 us, and to be woken takes 50 to 200: so stay awake for as long as that
// costs.
constexpr auto kAwake = std::chrono::microseconds(200);

inline void pause() { __builtin_ia32_pause(); }

class Pool {
 public:
  void run(Body body, void* context, int num_threads) {
    std::unique_lock<std::mutex> mine(calls_, std::try_to_lock);
    // Another thread has a call under way: there are no cores to spare.
    if (!mine.owns_lock()) return body(context);
    while (num_helpers_ < num_threads - 1 && start()) {
    }
    context_ = context;
    num_wanted_ = num_threads - 1;
    body_.store(body);
    call_.fetch_add(1);
    if (num_asleep_.load() > 0) {
      std::lock_guard<std::mutex> hold(sleep_);
      awake_.notify_all();
    }
    body(context);
    // Closed before it is looked who is inside, as they are inside before they look whether it is open.
    body_.store(nullptr);
    for (int i = 1; num_inside_.load() > 0; i++) i % 1024 == 0 ? std::this_thread::yield() : pause();
  }

 private:
  bool start() {
    pthread_t thread;
    struct Arguments { Pool* pool; int number; unsigned seen; };
    auto* arguments = new (std::nothrow) Arguments{this, num_helpers_, call_.load()};
    if (arguments == nullptr) return false;
    auto main = [](void* given) -> void* {
      Arguments taken = *static_cast<Arguments*>(given);
      delete static_cast<Arguments*>(given);
      taken.pool->help(taken.number, taken.seen);
      return nullptr;
    };
    if (pthread_create(&thread, nullptr, main, arguments) != 0) {
      delete arguments;
      return false;
    }
    pthread_detach(thread);
    num_helpers_++;
    return true;
  }

  void help(int number, unsigned seen) {
    for (;;) {
      seen = next_call(seen);
      num_inside_.fetch_add(1);
      Body body = body_.load();
      if (body != nullptr && number < num_wanted_) body(context_);
      num_inside_.fetch_sub(1);
    }
  }

  unsigned next_call(unsigned seen) {
    auto until = std::chrono::steady_clock::now() + kAwake;
    do {
      for (int i = 0; i < 16; i++) {
        unsigned now = call_.load();
        if (now != seen) return now;
        pause();
      }
    } while (std::chrono::steady_clock::now() < until);
    std::unique_lock<std::mutex> hold(sleep_);
    num_asleep_.fetch_add(1);
    awake_.wait(hold, [&] { return call_.load() != seen; });
    num_asleep_.fetch_sub(1);
    return call_.load();
  }

  std::mutex calls_;
  int num_helpers_ = 0;
  std::atomic<Body> body_{nullptr};
  void* context_ = nullptr;
  int num_wanted_ = 0;
  std::atomic<unsigned> call_{0};
  std::atomic<int> num_inside_{0};
  std::mutex sleep_;
  std::condition_variable awake_;
  std::atomic<int> num_asleep_{0};
};

std::atomic<Pool*> pool{nullptr};

// A child of fork() has none of the threads: it makes its own, and leaves alone what they may have held.
Pool* here() {
  static const bool noticed = pthread_atfork(nullptr, nullptr, [] { pool.store(nullptr); }) == 0;
  (void)noticed;
  Pool* found = pool.load();
  if (found != nullptr) return found;
  Pool* made = new (std::nothrow) Pool;
  if (made == nullptr || pool.compare_exchange_strong(found, made)) return made;
  delete made;
  return found;
}

}  // namespace

void in_parallel(Body body, void* context, int num_threads) {
  Pool* threads = here();
  if (threads == nullptr)
    body(context);
  else
    threads->run(body, context, num_threads);
}
