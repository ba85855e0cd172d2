#include "bench/support/bare_read.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "io/error.h"

namespace energon::bench {
namespace {

constexpr std::size_t kCacheLine = 64;

template <class Visitor>
void read_each(const auto& reads, std::span<std::byte> buffer, const Visitor& visit) {
  std::size_t at = 0;
  for (const auto& read : reads) {
    if (at + read.size > buffer.size()) {
      at = 0;
    }
    std::byte* const place = buffer.data() + at;
    if (::pread(read.fd, place, read.size, static_cast<off_t>(read.offset)) !=
        static_cast<ssize_t>(read.size)) {
      throw Error(ErrorCode::kIo, "the bare loop got a short read");
    }
    visit(std::span<const std::byte>(place, read.size));
    at += read.size;
  }
}

}  // namespace

BareReader::BareReader(const Webdataset& dataset, std::span<const std::int64_t> order) {
  std::vector<TarIndex> indexes;
  for (const ShardFile& shard : dataset.shards().shards) {
    files_.emplace_back(shard.tar_path);
    indexes.push_back(TarIndex::load(shard.index_path, shard.tar_size));
  }
  reads_.reserve(order.size());
  for (const std::int64_t sample : order) {
    const Webdataset::Position position = dataset.position_of(sample);
    const auto shard = static_cast<std::size_t>(position.shard);
    const ByteRange range = indexes[shard].range(position.sample);
    reads_.push_back({files_[shard].fd(), range.size, range.offset});
    largest_ = std::max<std::size_t>(largest_, range.size);
  }
}

void BareReader::read_all(std::span<std::byte> buffer) const {
  read_each(reads_, buffer, [](std::span<const std::byte>) {});
}

std::uint64_t BareReader::read_and_touch_all(std::span<std::byte> buffer) const {
  std::uint64_t sum = 0;
  read_each(reads_, buffer,
            [&sum](std::span<const std::byte> bytes) { sum += touch_lines(bytes); });
  return sum;
}

std::uint64_t touch_lines(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + sizeof(sum) <= bytes.size(); at += kCacheLine) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    sum += word;
  }
  return sum;
}

void keep(std::uint64_t value) { asm volatile("" : : "r"(value) : "memory"); }

}  // namespace energon::bench
