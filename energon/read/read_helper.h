// A second reading thread for workers with large batches.
//
// Reading from the page cache is limited by the copy speed of one core. The reads are cut into
// parts. The calling thread and the helper thread take parts in order until none is left, so a
// late helper causes no delay. If the helper is preempted within a part, the caller waits for it.

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/file.h"

namespace energon {

/// Bytes of a file and their destination. `file` and `out` are borrowed.
struct FileRead {
  const FileSource* file = nullptr;
  std::uint64_t offset = 0;
  std::span<std::byte> out = {};
};

/// Performs `reads` one after the other in the calling thread. Throws the Errors of
/// FileSource::read_at().
void read_alone(std::span<const FileRead> reads);

/// Used by one calling thread, in a process that no longer forks: the main thread of a worker.
/// Never used in the trainer's process.
class ReadHelper {
 public:
  /// Minimum total bytes of reads that use the helper thread.
  static constexpr std::size_t kLeastBytes = std::size_t{4} << 20;

  /// False if this process may use only one core.
  static bool can_help();

  /// Does not start the thread; the first large read does. The destructor ends the thread.
  ReadHelper() = default;
  ReadHelper(const ReadHelper&) = delete;
  ReadHelper& operator=(const ReadHelper&) = delete;

  /// Like read_alone(), with the same bytes and the same Error: that of the first read that fails.
  /// When it returns or throws, neither thread accesses `reads` any more. If the system cannot
  /// start a thread, it reads alone.
  void read(std::span<const FileRead> reads);

  /// CPU time of the helper's thread since the last call.
  std::chrono::nanoseconds take_cpu_time();

 private:
  struct Part {
    const FileRead* read;
    std::size_t begin;  // offset in the bytes of `read`
    std::size_t size;
  };
  struct Failure {
    std::size_t part = std::numeric_limits<std::size_t>::max();
    std::exception_ptr error = nullptr;
  };

  bool start();
  void serve(const std::stop_token& stop);
  Failure read_parts();

  std::vector<Part> parts_;           // not changed while a thread may read them
  std::atomic<std::size_t> next_{0};  // first part not yet taken

  Mutex mutex_;
  StoppableCondition changed_;
  bool is_wanted_ ENERGON_GUARDED_BY(mutex_) =
      false;  // there are parts that the helper has not seen
  bool is_reading_ ENERGON_GUARDED_BY(mutex_) = false;  // the helper
  Failure failure_ ENERGON_GUARDED_BY(mutex_);          // the helper's
  std::chrono::nanoseconds cpu_time_ ENERGON_GUARDED_BY(mutex_){0};

  std::jthread thread_;  // last, so that it is joined before the members it uses are destroyed
};

}  // namespace energon
