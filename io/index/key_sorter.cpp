#include "io/index/key_sorter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "io/error.h"
#include "io/file.h"

namespace energon {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{256} << 10;
constexpr std::size_t kLeastReadBytes = std::size_t{16} << 10;
constexpr std::size_t kMostReadBytes = std::size_t{256} << 10;

// The first eight bytes as an integer that compares in the same order; missing bytes are zero.
std::uint64_t beginning_of(std::string_view key) {
  std::array<unsigned char, 8> bytes{};
  std::copy_n(key.begin(), std::min(key.size(), bytes.size()), bytes.begin());
  std::uint64_t value = 0;
  for (const unsigned char byte : bytes) {
    value = value << 8 | byte;
  }
  return value;
}

// Header of a key in the file of runs; the key follows.
struct RunItemHead {
  std::int64_t row;
  std::uint64_t size;
};

void append_bytes(std::vector<std::byte>& out, const void* from, std::size_t size) {
  const auto* const begin = static_cast<const std::byte*>(from);
  out.insert(out.end(), begin, begin + size);
}

// Reads the keys of one run in order.
class RunReader {
 public:
  RunReader(int fd, ByteRange range, std::size_t buffer_bytes, const std::string& path)
      : fd_(fd), rest_(range), path_(path), buffer_(buffer_bytes) {
    step();
  }

  bool is_at_end() const { return !has_key_; }
  std::string_view key() const { return key_; }
  std::int64_t row() const { return row_; }

  bool is_before(const RunReader& other) const {
    if (beginning_ != other.beginning_) {
      return beginning_ < other.beginning_;
    }
    const int order = key_.compare(other.key_);
    return order != 0 ? order < 0 : row_ < other.row_;
  }

  void step() {
    has_key_ = rest_.size > 0 || begin_ < end_;
    if (has_key_) {
      RunItemHead head{};
      std::memcpy(&head, take(sizeof(head)), sizeof(head));
      key_ = {reinterpret_cast<const char*>(take(head.size)), head.size};
      row_ = head.row;
      beginning_ = beginning_of(key_);
    }
  }

 private:
  // The next bytes; valid until the next call.
  const std::byte* take(std::size_t size) {
    if (end_ - begin_ < size) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      buffer_.resize(std::max(buffer_.size(), size));
      while (end_ < size) {
        fill();
      }
    }
    begin_ += size;
    return buffer_.data() + begin_ - size;
  }

  void fill() {
    const std::size_t wanted = std::min<std::uint64_t>(buffer_.size() - end_, rest_.size);
    const ssize_t count =
        ::pread(fd_, buffer_.data() + end_, wanted, static_cast<off_t>(rest_.offset));
    if (count < 0 && errno == EINTR) {
      return;
    }
    if (count <= 0) {
      throw io_error("cannot read sorted keys", count < 0 ? errno : EIO, {.path = path_});
    }
    end_ += static_cast<std::size_t>(count);
    rest_.offset += static_cast<std::uint64_t>(count);
    rest_.size -= static_cast<std::uint64_t>(count);
  }

  const int fd_;
  ByteRange rest_;  // the unread part of the run
  const std::string& path_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;  // start of the unread bytes in the buffer
  std::size_t end_ = 0;
  bool has_key_ = false;
  std::string_view key_;
  std::uint64_t beginning_ = 0;
  std::int64_t row_ = 0;
};

}  // namespace

KeySorter::KeySorter(std::string path, std::uint64_t memory_bytes)
    : path_(std::move(path)),
      memory_bytes_(std::min<std::uint64_t>(memory_bytes, std::uint64_t{1} << 30)) {}

bool KeySorter::is_before(const Item& a, const Item& b) const {
  if (a.beginning != b.beginning) {
    return a.beginning < b.beginning;
  }
  const int order = key_of(a).compare(key_of(b));
  return order != 0 ? order < 0 : a.row < b.row;
}

void KeySorter::add(std::string_view key, std::int64_t row) {
  if (!items_.empty() &&
      texts_.size() + key.size() + (items_.size() + 1) * sizeof(Item) > memory_bytes_) {
    write_run();
  }
  if (key.size() > std::numeric_limits<std::uint32_t>::max() - texts_.size()) {
    throw Error(ErrorCode::kResourceExhausted, "a sample key has 4 GiB or more", {.path = path_});
  }
  const Item item{.beginning = beginning_of(key),
                  .offset = static_cast<std::uint32_t>(texts_.size()),
                  .size = static_cast<std::uint32_t>(key.size()),
                  .row = row};
  texts_.insert(texts_.end(), key.begin(), key.end());
  if (items_.empty() || is_before(item, items_.back())) {
    stretches_.push_back(items_.size());
  }
  items_.push_back(item);
}

void KeySorter::sort_items() {
  constexpr std::size_t kShortStretch = 8;
  const auto before = [this](const Item& a, const Item& b) { return is_before(a, b); };
  const auto at = [this](std::size_t i) {
    return items_.begin() +
           static_cast<std::ptrdiff_t>(i < stretches_.size() ? stretches_[i] : items_.size());
  };
  if (stretches_.size() > items_.size() / kShortStretch) {
    std::sort(items_.begin(), items_.end(), before);
    stretches_.resize(std::min<std::size_t>(stretches_.size(), 1));
  }
  while (stretches_.size() > 1) {
    std::vector<std::size_t> merged;
    for (std::size_t i = 0; i < stretches_.size(); i += 2) {
      std::inplace_merge(at(i), at(i + 1), at(i + 2), before);
      merged.push_back(stretches_[i]);
    }
    stretches_ = std::move(merged);
  }
}

void KeySorter::write_run() {
  sort_items();
  if (!runs_.valid()) {
    runs_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!runs_.valid() || ::unlink(path_.c_str()) != 0) {
      throw io_error("cannot create a file for sorted keys", errno, {.path = path_});
    }
  }
  const ByteRange begin{.offset = runs_size_};
  std::vector<std::byte> out;
  const auto write_out = [&] {
    write_all(runs_.get(), out, "cannot write sorted keys", {.path = path_});
    runs_size_ += out.size();
    out.clear();
  };
  for (const Item& item : items_) {
    const RunItemHead head{.row = item.row, .size = item.size};
    append_bytes(out, &head, sizeof(head));
    append_bytes(out, key_of(item).data(), item.size);
    if (out.size() >= kWriteBytes) {
      write_out();
    }
  }
  write_out();
  const bool continues_last_run = !run_ranges_.empty() && last_key_ < key_of(items_.front());
  if (!continues_last_run) {
    run_ranges_.push_back(begin);
  }
  run_ranges_.back().size = runs_size_ - run_ranges_.back().offset;
  last_key_ = key_of(items_.back());
  items_.clear();
  texts_.clear();
  stretches_.clear();
}

void KeySorter::visit_in_order(const Visit& visit) {
  if (run_ranges_.empty()) {
    sort_items();
    for (const Item& item : items_) {
      visit(key_of(item), item.row);
    }
    return;
  }
  if (!items_.empty()) {
    write_run();
  }
  items_ = {};
  texts_ = {};
  merge(visit);
}

void KeySorter::merge(const Visit& visit) {
  const std::size_t buffer_bytes =
      std::clamp<std::size_t>(memory_bytes_ / run_ranges_.size(), kLeastReadBytes, kMostReadBytes);
  std::vector<std::unique_ptr<RunReader>> readers;
  for (const ByteRange& range : run_ranges_) {
    readers.push_back(std::make_unique<RunReader>(runs_.get(), range, buffer_bytes, path_));
  }
  const auto is_later = [](const std::unique_ptr<RunReader>& a,
                           const std::unique_ptr<RunReader>& b) { return b->is_before(*a); };
  std::make_heap(readers.begin(), readers.end(), is_later);
  while (!readers.empty()) {
    std::pop_heap(readers.begin(), readers.end(), is_later);
    RunReader& next = *readers.back();
    visit(next.key(), next.row());
    next.step();
    if (next.is_at_end()) {
      readers.pop_back();
    } else {
      std::push_heap(readers.begin(), readers.end(), is_later);
    }
  }
}

}  // namespace energon
