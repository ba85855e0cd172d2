#include "io/index/btree_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "io/error.h"
#include "io/file.h"
#include "io/index/btree_format.h"

namespace energon {
namespace {

constexpr std::size_t kPendingBytes = std::size_t{1} << 20;
constexpr std::uint64_t kPageCountOffset = 28;  // in the file's header
// SQLite locks bytes at 1 GiB, so it never uses the page that has them.
constexpr std::uint32_t kLockPage = (std::uint32_t{1} << 30) / kBtreePageBytes + 1;
constexpr std::uint32_t kMaxPages = std::numeric_limits<std::uint32_t>::max() - 1;

std::uint64_t offset_of_page(std::uint32_t number) {
  return std::uint64_t{number - 1} * kBtreePageBytes;
}

}  // namespace

BtreeFile::BtreeFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDWR | O_CLOEXEC)) {
  const off_t size = fd_.valid() ? ::lseek(fd_.get(), 0, SEEK_END) : -1;
  if (size < 0) {
    throw io_error("cannot open the index database", errno, {.path = path_});
  }
  page_count_ = static_cast<std::uint32_t>(static_cast<std::uint64_t>(size) / kBtreePageBytes);
  pending_.reserve(kPendingBytes);
}

std::uint32_t BtreeFile::number_after(std::uint32_t number) {
  return number + (number + 1 == kLockPage ? 2 : 1);
}

std::uint32_t BtreeFile::append(const Page& page) {
  const std::uint32_t number = next_number();
  if (number > kMaxPages) {
    throw Error(ErrorCode::kResourceExhausted, "the index database has too many pages for SQLite",
                {.path = path_});
  }
  if (number != page_count_ + 1) {
    pending_.resize(pending_.size() + kBtreePageBytes);  // of the locks
  }
  pending_.insert(pending_.end(), page.begin(), page.end());
  page_count_ = number;
  if (pending_.size() >= kPendingBytes) {
    flush();
  }
  return number;
}

void BtreeFile::replace(std::uint32_t number, const Page& page) {
  flush();
  go_to(offset_of_page(number));
  write_all(fd_.get(), page, "cannot write the index database", {.path = path_});
  go_to(offset_of_page(page_count_ + 1));
}

void BtreeFile::finish() {
  flush();
  std::array<std::byte, sizeof(std::uint32_t)> count{};
  put_be32(count.data(), page_count_);
  go_to(kPageCountOffset);
  write_all(fd_.get(), count, "cannot write the index database", {.path = path_});
  if (::fsync(fd_.get()) != 0) {
    throw io_error("cannot sync file", errno, {.path = path_});
  }
}

void BtreeFile::go_to(std::uint64_t offset) {
  if (::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
    throw io_error("cannot write the index database", errno, {.path = path_});
  }
}

void BtreeFile::flush() {
  write_all(fd_.get(), pending_, "cannot write the index database", {.path = path_});
  pending_.clear();
}

}  // namespace energon
