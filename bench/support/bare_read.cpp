#include "bench/support/bare_read.h"

#include <unistd.h>

#include <algorithm>

#include "io/error.h"

namespace energon::bench {
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

std::uint64_t BareReader::read_all(std::span<std::byte> buffer, Consumer consumer) const {
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (const Read& read : reads_) {
    if (at + read.size > buffer.size()) {
      at = 0;
    }
    std::byte* const place = buffer.data() + at;
    if (::pread(read.fd, place, read.size, static_cast<off_t>(read.offset)) !=
        static_cast<ssize_t>(read.size)) {
      throw Error(ErrorCode::kIo, "the bare loop got a short read");
    }
    sum += consume(consumer, std::span<const std::byte>(place, read.size));
    at += read.size;
  }
  return sum;
}

}  // namespace energon::bench
