// Threads and forks: locks that clang checks, counters, jobs on a few threads, and objects that
// belong to one process.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#if defined(__clang__)
#define ENERGON_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define ENERGON_THREAD_ANNOTATION(x)
#endif

// Class attributes: a mutex, and a scoped lock.
#define ENERGON_CAPABILITY(name) ENERGON_THREAD_ANNOTATION(capability(name))
#define ENERGON_SCOPED_CAPABILITY ENERGON_THREAD_ANNOTATION(scoped_lockable)

// Variable attributes: the variable, or the object it points to, is accessed only with the mutex
// held.
#define ENERGON_GUARDED_BY(mutex) ENERGON_THREAD_ANNOTATION(guarded_by(mutex))
#define ENERGON_PT_GUARDED_BY(mutex) ENERGON_THREAD_ANNOTATION(pt_guarded_by(mutex))

// Function attributes: the caller must hold the mutex, or must not hold it.
#define ENERGON_REQUIRES(...) ENERGON_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define ENERGON_EXCLUDES(...) ENERGON_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

// Function attributes: acquires or releases the mutex.
#define ENERGON_ACQUIRE(...) ENERGON_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define ENERGON_RELEASE(...) ENERGON_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

// Function attribute: clang does not check the body. A comment at each use gives the reason.
#define ENERGON_NO_THREAD_SAFETY_ANALYSIS ENERGON_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace energon {

/// Number of CPUs in the affinity mask of the calling thread, at least 1. Ignores limits on CPU
/// time, such as a container's quota. Thread-safe.
int usable_cpus();

// --- Mutexes and conditions ---
//
// Clang checks their use at compile time (-Wthread-safety): members guarded by a mutex and
// functions that require one are annotated, and an access without the mutex does not compile. Other
// compilers see plain std::mutex code:
//
//   void add(int x) {
//     const MutexLock lock(mutex_);
//     sum_ += x;
//     changed_.notify_all();
//   }
//   void wait_for(int x) {
//     const MutexLock lock(mutex_);
//     while (sum_ < x) {
//       changed_.wait(mutex_);
//     }
//   }
//   Mutex mutex_;
//   Condition changed_;
//   int sum_ ENERGON_GUARDED_BY(mutex_) = 0;
//
// Waits take no predicate, because the analysis cannot see that a lambda runs with the mutex held.
// Constructors and destructors are not checked: no other thread can reach the object.

/// A std::mutex. Normally locked by a MutexLock.
class ENERGON_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ENERGON_ACQUIRE() { mutex_.lock(); }
  void unlock() ENERGON_RELEASE() { mutex_.unlock(); }

 private:
  friend class Condition;

  std::mutex mutex_;
};

/// Holds a mutex until the end of the scope or until unlock(). Used by one thread.
class ENERGON_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ENERGON_ACQUIRE(mutex) : mutex_(&mutex) { mutex.lock(); }
  ~MutexLock() ENERGON_RELEASE() {
    if (mutex_ != nullptr) {
      mutex_->unlock();
    }
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  /// Requires: not called before.
  void unlock() ENERGON_RELEASE() { std::exchange(mutex_, nullptr)->unlock(); }

 private:
  Mutex* mutex_;  // nullptr after unlock()
};

/// Releases a mutex that the thread holds and reacquires it at the end of the scope, even if the
/// scope is left by an exception.
class ENERGON_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) ENERGON_RELEASE(mutex) : mutex_(mutex) { mutex.unlock(); }
  ~MutexUnlock() ENERGON_RELEASE() { mutex_.lock(); }  // RELEASE ends any scoped capability
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

/// A std::condition_variable. A wait releases the mutex while it sleeps and may wake without a
/// notification, so call it in a loop that tests the condition.
class Condition {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(Mutex& mutex) ENERGON_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  /// Returns false if `deadline` passes first.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      ENERGON_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, deadline);
    lock.release();
    return status == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable condition_;
};

/// A Condition whose waits can also end by a stop request. Costs a second mutex.
class StoppableCondition {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(Mutex& mutex) ENERGON_REQUIRES(mutex) { condition_.wait(mutex); }

  /// Returns false if a stop was requested, before or during the wait.
  bool wait(Mutex& mutex, const std::stop_token& stop) ENERGON_REQUIRES(mutex) {
    // The standard has no such wait without a predicate. This one is false only before the first
    // sleep.
    condition_.wait(mutex, stop, [woken = false]() mutable { return std::exchange(woken, true); });
    return !stop.stop_requested();
  }

 private:
  std::condition_variable_any condition_;
};

// --- Counters with one writer ---
//
// Any thread may read them at any time: a recent value is enough, and they order nothing. A load
// and a store are cheaper than an atomic add.

inline std::uint64_t load_relaxed(const std::atomic<std::uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

/// Requires: no other thread writes `counter`.
inline void add_relaxed(std::atomic<std::uint64_t>& counter, std::uint64_t more) {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

/// The same, in nanoseconds.
inline void add_relaxed(std::atomic<std::uint64_t>& counter, std::chrono::nanoseconds time) {
  add_relaxed(counter, static_cast<std::uint64_t>(time.count()));
}

// --- One job per shard, on a few threads ---

/// The number of threads to use: `requested`, else one per core and at most 16; never more than
/// `jobs`, at least 1. Throws Error (kInvalidArgument) if `requested` is below 1.
int thread_count(std::optional<int> requested, std::int64_t jobs);

/// Calls body(i) for each i in [0, jobs), on up to `threads` threads, which end before this
/// returns. Returns the exceptions of the jobs: one entry per job, null if it threw nothing.
std::vector<std::exception_ptr> parallel_for(std::int64_t jobs, int threads,
                                             const std::function<void(std::int64_t)>& body);

/// Throws the first of `errors`, if there is one. If there are more, its message gives their
/// number.
void rethrow_first(const std::vector<std::exception_ptr>& errors);

// --- Objects that belong to one process ---
//
// A user may fork (multiprocessing) while a loader lives. The child then has a copy of every object
// of this library, over the same shared memory, and must not use it: it would steal samples and
// return slots twice. Objects that write to shared memory or own processes hold an OwnerProcess.

/// A check costs one relaxed load: a pthread_atfork handler counts forks in the child. Thread-safe.
class OwnerProcess {
 public:
  OwnerProcess();

  /// False in a forked child of the process that made this object.
  bool is_current() const noexcept;

  /// Throws Error (kCancelled, "`what` is used after fork …") in a forked child.
  void check(const char* what) const {
    if (!is_current()) {
      refuse(what);
    }
  }

 private:
  [[noreturn]] static void refuse(const char* what);

  std::uint64_t generation_;
};

}  // namespace energon
