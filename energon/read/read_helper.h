// A second thread that reads, for workers whose batches are large.
//
// What is in the page cache is copied as fast as one core copies. The reads are cut into parts,
// which the calling thread and the helper's take in their order until none is left. So a helper
// that wakes late leaves no work undone; one that loses its core in the middle of a part is waited
// for.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "io/bytes.h"
#include "io/file_source.h"

namespace energon {

/// Bytes of a file and where they go. Both are borrowed.
struct FileRead {
  const FileSource* file = nullptr;
  std::uint64_t offset = 0;
  std::span<std::byte> out = {};
};

/// One after the other, in the calling thread. Throws as FileSource::read_at().
void read_alone(std::span<const FileRead> reads);

/// For one calling thread, in a process that forks no more: a worker's main thread. In the
/// trainer's process there is none.
class ReadHelper {
 public:
  /// Fewer bytes than this are not worth waking a thread.
  static constexpr std::size_t kLeastBytes = std::size_t{4} << 20;

  /// False where this process may use one core only.
  static bool can_help();

  /// Starts no thread; the first large read does. The destructor ends it.
  ReadHelper() = default;
  ReadHelper(const ReadHelper&) = delete;
  ReadHelper& operator=(const ReadHelper&) = delete;

  /// As read_alone(), with the same bytes and the same error: that of the first read that fails.
  /// Neither thread touches the reads any more when it returns or throws. Without a thread, because
  /// the system gives none, it reads alone.
  void read(std::span<const FileRead> reads);

  /// CPU time of the helper's thread since the last call.
  std::chrono::nanoseconds take_cpu_time();

 private:
  struct Part {
    const FileRead* read;
    std::size_t begin;  // in its bytes
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
  std::atomic<std::size_t> next_{0};  // the first part that nobody took

  std::mutex mutex_;  // guards all below
  std::condition_variable_any changed_;
  bool is_wanted_ = false;   // there are parts that the helper has not seen
  bool is_reading_ = false;  // the helper
  Failure failure_;          // the helper's
  std::chrono::nanoseconds cpu_time_{0};

  std::jthread thread_;  // last: joined before what it uses goes
};

}  // namespace energon
