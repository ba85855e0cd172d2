// A file descriptor with one owner.

#pragma once

#include <unistd.h>

#include <utility>

namespace energon {

/// Closes its descriptor on destruction. Ignores errors of close(): only readers and anonymous
/// descriptors are held here, and writers check fsync() first. A moved-from object is empty.
class UniqueFd {
 public:
  static constexpr int kInvalid = -1;

  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, kInvalid)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(std::exchange(other.fd_, kInvalid));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ != kInvalid; }
  int release() { return std::exchange(fd_, kInvalid); }
  void reset(int fd = kInvalid) {
    if (const int old = std::exchange(fd_, fd); old != kInvalid) {
      ::close(old);
    }
  }

 private:
  int fd_ = kInvalid;
};

}  // namespace energon
