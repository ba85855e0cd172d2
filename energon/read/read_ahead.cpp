#include "energon/read/read_ahead.h"

#include <algorithm>
#include <utility>

#include "io/error.h"

namespace energon {
namespace {

// Limits for one shard. More slices than this are rarely open in one tar at the same time.
constexpr std::size_t kMostStreams = 32;
constexpr std::size_t kMostEnds = 8;

}  // namespace

ReadAhead::ReadAhead(std::shared_ptr<AheadMemory> memory, std::size_t shard_count)
    : memory_(std::move(memory)), shards_(shard_count) {
  memory_->budget().join(*this);
}

ReadAhead::~ReadAhead() {
  drop_before(memory_->budget().now() + 1);
  memory_->budget().leave(*this);
}

void ReadAhead::prefetch(std::span<const PieceRun> runs) const {
  for (const PieceRun& run : runs) {
    __builtin_prefetch(shards_[static_cast<std::size_t>(run.shard)].get());
  }
  for (const PieceRun& run : runs) {
    if (const Shard* const noted = shards_[static_cast<std::size_t>(run.shard)].get()) {
      __builtin_prefetch(noted->streams.data(), 1);
    }
  }
}

ByteView ReadAhead::take(const AheadRequest& request) {
  if (ended_.size > 0) {
    memory_->keep(std::exchange(ended_, {}));
  }
  Stream* const stream = find(request);
  if (stream == nullptr || stream->stop < request.end) {
    return {};
  }
  return advance(*shard(request.shard), *stream, request);
}

bool ReadAhead::continues(const AheadRequest& request) {
  if (find(request) != nullptr) {
    return true;
  }
  note(request);
  return false;
}

ByteView ReadAhead::read(const AheadRequest& request, const FileSource& tar, const TarIndex& index,
                         std::int64_t share_end) {
  Stream& stream = *find(request);
  stream.end = std::min(share_end, index.sample_count());
  stream.next = request.end;
  stream.stop = request.end;
  const std::uint64_t size = memory_->block_size();
  if (request.range.size > size / 2) {
    return {};  // a block would not serve a second request
  }
  stream.window = std::min(2 * std::max(stream.window, request.range.size), size);
  const std::int64_t stop = window_end(stream, request, index);
  if (stop <= request.end) {
    return {};
  }
  reserve(stream, size);
  const std::uint64_t wanted = index.range(stop - 1).end() - request.range.offset;
  try {
    tar.read_at(request.range.offset, {stream.block.bytes.get(), wanted});
  } catch (const Error&) {
    release(stream);
    return {};
  }
  stream.offset = request.range.offset;
  stream.stop = stop;
  return advance(*shard(request.shard), stream, request);
}

// The stream that the request continues. It may skip excluded samples.
ReadAhead::Stream* ReadAhead::find(const AheadRequest& request) {
  Shard* const noted = shard(request.shard);
  if (noted == nullptr) {
    return nullptr;
  }
  const auto found =
      std::find_if(noted->streams.begin(), noted->streams.end(), [&](const Stream& stream) {
        return stream.next == request.first ||
               (stream.next < request.first && request.first < stream.stop);
      });
  return found == noted->streams.end() ? nullptr : &*found;
}

// Called for a request that does not continue a stream. If it continues an earlier request, the two
// start a stream.
void ReadAhead::note(const AheadRequest& request) {
  std::unique_ptr<Shard>& noted = shards_[static_cast<std::size_t>(request.shard)];
  if (!noted) {
    noted = std::make_unique<Shard>();
  }
  std::vector<std::int64_t>& ends = noted->ends;
  const auto before = std::find(ends.begin(), ends.end(), request.first);
  if (before != ends.end()) {
    *before = request.end;
    begin_stream(request.shard, {.next = request.end,
                                 .stop = request.end,
                                 .window = request.range.size,
                                 .last_use = memory_->budget().now()});
  } else if (ends.size() < kMostEnds) {
    ends.push_back(request.end);
  } else {
    ends[noted->oldest_end++ % kMostEnds] = request.end;
  }
}

void ReadAhead::begin_stream(std::int64_t number, const Stream& stream) {
  std::vector<Stream>& streams = shard(number)->streams;
  if (streams.capacity() == 0) {
    with_streams_.push_back(number);
  }
  if (streams.size() == kMostStreams) {
    const auto oldest =
        std::min_element(streams.begin(), streams.end(),
                         [](const Stream& a, const Stream& b) { return a.last_use < b.last_use; });
    release(*oldest);
    streams.erase(oldest);
  }
  streams.push_back({.next = stream.next,
                     .stop = stream.stop,
                     .window = stream.window,
                     .last_use = stream.last_use});
}

// The bytes of the request, which are in the stream's block. Removes the stream at its end.
ByteView ReadAhead::advance(Shard& shard, Stream& stream, const AheadRequest& request) {
  const ByteView bytes(stream.block.bytes.get() + (request.range.offset - stream.offset),
                       request.range.size);
  stream.next = request.end;
  stream.last_use = memory_->budget().now();
  if (stream.next == stream.end) {
    memory_->budget().remove(stream.block.size);
    ended_ = std::exchange(stream.block, {});
    std::swap(stream, shard.streams.back());
    shard.streams.pop_back();
  }
  return bytes;
}

// One past the last sample that fits completely into the window.
std::int64_t ReadAhead::window_end(const Stream& stream, const AheadRequest& request,
                                   const TarIndex& index) const {
  if (stream.end <= request.end) {
    return request.end;
  }
  const auto entries = index.entries();
  const auto past =
      std::upper_bound(entries.begin() + request.end, entries.begin() + stream.end + 1,
                       request.range.offset + stream.window);
  return past - entries.begin() - 1;
}

void ReadAhead::reserve(Stream& stream, std::uint64_t size) {
  if (stream.block.size == size) {
    return;
  }
  release(stream);
  SharedBudget& budget = memory_->budget();
  budget.advance();
  budget.make_room(size);
  stream.block = memory_->take(size);
}

void ReadAhead::release(Stream& stream) {
  if (stream.block.size > 0) {
    memory_->give(std::exchange(stream.block, {}));
    stream.stop = stream.next;
  }
}

void ReadAhead::list(std::vector<SharedBudget::Usage>& held) const {
  for (const std::int64_t number : with_streams_) {
    for (const Stream& stream : shards_[static_cast<std::size_t>(number)]->streams) {
      if (stream.block.size > 0) {
        held.push_back({stream.last_use, stream.block.size});
      }
    }
  }
}

void ReadAhead::drop_before(std::uint64_t time) {
  for (const std::int64_t number : with_streams_) {
    for (Stream& stream : shard(number)->streams) {
      if (stream.last_use < time) {
        release(stream);
      }
    }
  }
}

}  // namespace energon
