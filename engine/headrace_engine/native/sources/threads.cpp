// Threads that wait for work: awake for a moment, then asleep.
//
// OpenMP, which torch computes with, begins and ends a parallel region with all its threads. Where cores are shared,
// with a broker, a tokenizer or other tenants, each region then waits for the slowest of them to get a core; and so
// that they are there in time, its threads spin for milliseconds after a region, on the cores that the others need.
// Here whoever calls begins at once, takes tasks itself, and waits for nobody but those who have taken one. A thread
// that is late finds nothing left to do.

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <new>

#include "parallel.h"

namespace {

// Between two kernels of a step pass some 10 us, and to be woken takes 50 to 200: so stay awake for as long as that
// costs.
constexpr auto kAwake = std::chrono::microseconds(200);

inline void pause() { __builtin_ia32_pause(); }

// That of POSIX, since the C++ library's own would tie this library to as new a C++ library as it was compiled with.
class Mutex {
 public:
  void lock() { pthread_mutex_lock(&mutex); }
  bool try_lock() { return pthread_mutex_trylock(&mutex) == 0; }
  void unlock() { pthread_mutex_unlock(&mutex); }

  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
};

class Pool {
 public:
  void run(Body body, void* context, int num_threads) {
    // Another thread has a call under way: there are no cores to spare.
    if (!calls_.try_lock()) return body(context);
    while (num_helpers_ < num_threads - 1 && start()) {
    }
    context_ = context;
    num_wanted_.store(num_threads - 1);
    body_.store(body);
    call_.fetch_add(1);
    if (num_asleep_.load() > 0) {
      sleep_.lock();
      pthread_cond_broadcast(&awake_);
      sleep_.unlock();
    }
    body(context);
    // Closed before it is looked who is inside, as they are inside before they look whether it is open.
    body_.store(nullptr);
    for (int i = 1; num_inside_.load() > 0; i++) i % 1024 == 0 ? (void)sched_yield() : pause();
    calls_.unlock();
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
      seen = next_call(number, seen);
      num_inside_.fetch_add(1);
      Body body = body_.load();
      if (body != nullptr && number < num_wanted_.load()) body(context_);
      num_inside_.fetch_sub(1);
    }
  }

  bool is_wanted(int number, unsigned seen) const { return call_.load() != seen && number < num_wanted_.load(); }

  // Wait for a call after `seen` that wants the helper of that number.
  unsigned next_call(int number, unsigned seen) {
    auto until = std::chrono::steady_clock::now() + kAwake;
    do {
      for (int i = 0; i < 16; i++) {
        if (is_wanted(number, seen)) return call_.load();
        pause();
      }
    } while (std::chrono::steady_clock::now() < until);
    sleep_.lock();
    num_asleep_.fetch_add(1);
    while (!is_wanted(number, seen)) pthread_cond_wait(&awake_, &sleep_.mutex);
    num_asleep_.fetch_sub(1);
    sleep_.unlock();
    return call_.load();
  }

  Mutex calls_;
  int num_helpers_ = 0;
  std::atomic<Body> body_{nullptr};
  void* context_ = nullptr;
  std::atomic<int> num_wanted_{0};
  std::atomic<unsigned> call_{0};
  std::atomic<int> num_inside_{0};
  Mutex sleep_;
  pthread_cond_t awake_ = PTHREAD_COND_INITIALIZER;
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
