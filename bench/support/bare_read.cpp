#include "bench/support/bare_read.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "bench/support/measure.h"
#include "io/error.h"

namespace energon::bench {

// --- One thread ---

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
      throw Error(ErrorCode::kIo, "short read in the bare loop");
    }
    sum += consume(consumer, std::span<const std::byte>(place, read.size));
    at += read.size;
  }
  return sum;
}

// --- Several threads ---

namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;  // stays in a core's own cache

}  // namespace

double seconds_in_threads(int threads, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(threads));
  const Clock::time_point begin = Clock::now();
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&body, &failure = failures[static_cast<std::size_t>(i)], i] {
        try {
          body(i);
        } catch (...) {
          failure = std::current_exception();
        }
      });
    }
  }
  const double seconds = seconds_since(begin);
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
  return seconds;
}

BareSampleThreads::BareSampleThreads(const Webdataset& dataset, std::span<const std::int64_t> order,
                                     int threads, Consumer consumer, std::size_t buffer_bytes)
    : consumer_(consumer) {
  const auto parts = static_cast<std::size_t>(threads);
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t begin = order.size() * i / parts;
    const std::size_t end = order.size() * (i + 1) / parts;
    readers_.emplace_back(dataset, order.subspan(begin, end - begin));
    buffers_.emplace_back(std::max(readers_.back().largest_range(), buffer_bytes));
  }
}

double BareSampleThreads::samples_per_second(int passes) {
  const double seconds = seconds_in_threads(static_cast<int>(readers_.size()), [&](int thread) {
    const auto i = static_cast<std::size_t>(thread);
    for (int pass = 0; pass < passes; ++pass) {
      keep(readers_[i].read_all(buffers_[i], consumer_));
    }
  });
  std::int64_t samples = 0;
  for (const BareReader& reader : readers_) {
    samples += reader.sample_count() * passes;
  }
  return static_cast<double>(samples) / seconds;
}

BareBlockThreads::BareBlockThreads(const Webdataset& dataset, int threads)
    : threads_(threads), samples_(dataset.sample_count()) {
  for (const ShardFile& shard : dataset.shards().shards) {
    files_.emplace_back(shard.tar_path);
  }
}

double BareBlockThreads::samples_per_second() const {
  const double seconds = seconds_in_threads(threads_, [this](int thread) { read_shards(thread); });
  return static_cast<double>(samples_) / seconds;
}

void BareBlockThreads::read_shards(int thread) const {
  std::vector<std::byte> block(kBlockBytes);
  for (auto i = static_cast<std::size_t>(thread); i < files_.size();
       i += static_cast<std::size_t>(threads_)) {
    off_t at = 0;
    ssize_t size = 0;
    while ((size = ::pread(files_[i].fd(), block.data(), block.size(), at)) > 0) {
      keep(consume(Consumer::kTouches,
                   std::span<const std::byte>(block.data(), static_cast<std::size_t>(size))));
      at += size;
    }
    if (size < 0) {
      throw Error(ErrorCode::kIo, "the bare loop cannot read a shard");
    }
  }
}

}  // namespace energon::bench
