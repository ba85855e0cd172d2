// Mutexes and conditions whose use clang checks at compile time (-Wthread-safety).
//
// A member that a mutex guards says so; so does a function that may only be called with the mutex
// held. Clang refuses an access without it. Other compilers see plain std::mutex code:
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
// Waits have no predicate, because the analysis does not know that the mutex is held in a lambda.
// Constructors and destructors are not checked: nobody else has the object.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

#if defined(__clang__)
#define ENERGON_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define ENERGON_THREAD_ANNOTATION(x)
#endif

// Of a class.
#define ENERGON_CAPABILITY(name) ENERGON_THREAD_ANNOTATION(capability(name))
#define ENERGON_SCOPED_CAPABILITY ENERGON_THREAD_ANNOTATION(scoped_lockable)

// Of a variable: the mutex is held when it, or what it points to, is read or written.
#define ENERGON_GUARDED_BY(mutex) ENERGON_THREAD_ANNOTATION(guarded_by(mutex))
#define ENERGON_PT_GUARDED_BY(mutex) ENERGON_THREAD_ANNOTATION(pt_guarded_by(mutex))

// Of a function: the caller holds the mutex, or must not hold it.
#define ENERGON_REQUIRES(...) ENERGON_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define ENERGON_EXCLUDES(...) ENERGON_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

// Of a function: it returns with the mutex held, or given back.
#define ENERGON_ACQUIRE(...) ENERGON_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define ENERGON_RELEASE(...) ENERGON_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

// Of a function whose body clang cannot understand. A comment says why.
#define ENERGON_NO_THREAD_SAFETY_ANALYSIS ENERGON_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace energon {

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

/// Gives back a mutex that the thread holds, and takes it again at the end of the scope, also when
/// an exception leaves it.
class ENERGON_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) ENERGON_RELEASE(mutex) : mutex_(mutex) { mutex.unlock(); }
  ~MutexUnlock() ENERGON_RELEASE() { mutex_.lock(); }  // clang's word for the end of either scope
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

/// A std::condition_variable. A wait releases the mutex while it sleeps, and may end without a
/// notification: it belongs in a loop that tests the condition.
class Condition {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(Mutex& mutex) ENERGON_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  /// False: `deadline` came first.
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

  /// False: a stop is requested, before or during the wait.
  bool wait(Mutex& mutex, const std::stop_token& stop) ENERGON_REQUIRES(mutex) {
    // The standard has no such wait without a predicate: this one is false before the first sleep.
    condition_.wait(mutex, stop, [woken = false]() mutable { return std::exchange(woken, true); });
    return !stop.stop_requested();
  }

 private:
  std::condition_variable_any condition_;
};

}  // namespace energon
