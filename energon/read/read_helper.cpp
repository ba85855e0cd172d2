#include "energon/read/read_helper.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "energon/stage/thread_cpu_time.h"

namespace energon {
namespace {

// Small enough that both threads finish at about the same time, large enough to amortize taking a
// part.
constexpr std::size_t kPartBytes = std::size_t{256} << 10;

}  // namespace

void read_alone(std::span<const FileRead> reads) {
  for (const FileRead& read : reads) {
    read.file->read_at(read.offset, read.out);
  }
}

bool ReadHelper::can_help() { return usable_cpus() > 1; }

void ReadHelper::read(std::span<const FileRead> reads) {
  std::size_t bytes = 0;
  for (const FileRead& read : reads) {
    bytes += read.out.size();
  }
  if (bytes < kLeastBytes || !start()) {
    read_alone(reads);
    return;
  }
  parts_.clear();
  for (const FileRead& read : reads) {
    for (std::size_t begin = 0; begin < read.out.size(); begin += kPartBytes) {
      parts_.push_back({&read, begin, std::min(kPartBytes, read.out.size() - begin)});
    }
  }
  next_.store(0, std::memory_order_relaxed);  // published with is_wanted_
  {
    const MutexLock lock(mutex_);
    is_wanted_ = true;
    changed_.notify_all();
  }
  const Failure own = read_parts();
  const MutexLock lock(mutex_);
  is_wanted_ = false;
  while (is_reading_) {
    changed_.wait(mutex_);
  }
  const Failure helpers = std::exchange(failure_, {});
  // Each thread stops at its first failure, and all parts before that were taken. So the first of
  // both failures is the one that reading alone would have hit.
  if (const Failure& first = own.part < helpers.part ? own : helpers; first.error) {
    std::rethrow_exception(first.error);
  }
}

std::chrono::nanoseconds ReadHelper::take_cpu_time() {
  const MutexLock lock(mutex_);
  return std::exchange(cpu_time_, std::chrono::nanoseconds(0));
}

bool ReadHelper::start() {
  if (thread_.joinable()) {
    return true;
  }
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void ReadHelper::serve(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  while (true) {
    while (!is_wanted_) {
      if (!changed_.wait(mutex_, stop)) {
        return;
      }
    }
    is_wanted_ = false;
    is_reading_ = true;
    Failure failure;
    std::chrono::nanoseconds used{0};
    {
      const MutexUnlock unlocked(mutex_);
      const std::chrono::nanoseconds begin = thread_cpu_time();
      failure = read_parts();
      used = thread_cpu_time() - begin;
    }
    failure_ = std::move(failure);
    cpu_time_ += used;
    is_reading_ = false;
    changed_.notify_all();
  }
}

// Takes parts until none is left or one fails; then the other thread stops as well.
ReadHelper::Failure ReadHelper::read_parts() {
  while (true) {
    // Each number is taken once; the parts were published before.
    const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= parts_.size()) {
      return {};
    }
    const auto& [read, begin, size] = parts_[i];
    try {
      read->file->read_part_at({read->offset, read->out.size()}, read->offset + begin,
                               read->out.subspan(begin, size));
    } catch (...) {
      next_.store(parts_.size(), std::memory_order_relaxed);
      return {i, std::current_exception()};
    }
  }
}

}  // namespace energon
