#include "energon/read/webdataset_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "energon/read/batch_layout.h"
#include "energon/read/parse_sample.h"
#include "energon/read/read_ahead.h"
#include "energon/read/read_budgets.h"
#include "energon/read/read_round.h"
#include "energon/read/shard_cache.h"
#include "io/error.h"

namespace energon {

WebdatasetReader::WebdatasetReader(std::shared_ptr<const Webdataset> dataset)
    : dataset_(std::move(dataset)), layout_(std::make_unique<BatchLayout>()) {
  WebdatasetReader::share_budgets(ReadBudgets());
}

WebdatasetReader::WebdatasetReader(WebdatasetReader&&) noexcept = default;
WebdatasetReader::~WebdatasetReader() = default;

void WebdatasetReader::share_budgets(const ReadBudgets& budgets) {
  const WebdatasetOptions& options = dataset_->options();
  const ShardSet& set = dataset_->shards();
  shards_ = std::make_unique<ShardCache>(set, options.verify_checksums != VerifyChecksums::kOff,
                                         options.open_shards, budgets);
  ahead_ = std::make_unique<ReadAhead>(budgets.ahead, set.shards.size());
}

void WebdatasetReader::read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
                            std::vector<Sample>& samples) {
  read(indexes, nullptr, allocator, samples);
}

void WebdatasetReader::read_in_share(std::span<const std::int64_t> indexes, const LeafShare& share,
                                     BufferAllocator& allocator, std::vector<Sample>& samples) {
  read(indexes, &share, allocator, samples);
}

void WebdatasetReader::read(std::span<const std::int64_t> indexes, const LeafShare* share,
                            BufferAllocator& allocator, std::vector<Sample>& samples) {
  if (indexes.empty()) {
    return;
  }
  layout_->clear();
  locate(indexes);
  layout_->place();
  const std::size_t first = samples.size();
  samples.resize(first + indexes.size());
  const std::span<Sample> read = std::span(samples).subspan(first);
  try {
    read_runs(share, allocator, read);
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i].keys.empty()) {
        const SamplePiece& piece = layout_->pieces[i];
        read[i] = parse(
            piece, buffers_[piece.buffer].bytes.subspan(piece.buffer_offset, piece.range.size));
      }
    }
    check_boundaries(read);
  } catch (...) {
    samples.resize(first);
    buffers_.clear();
    throw;
  }
  buffers_.clear();
}

Sample WebdatasetReader::parse(const SamplePiece& piece, ByteView bytes) {
  Sample sample = parse_sample(*dataset_, piece, bytes, buffers_[piece.buffer], usual_parts_);
  usual_parts_ = sample.fields.size();
  return sample;
}

// If many shards are in rotation, their indexes are not in the CPU's cache. So all of them are
// prefetched before the first is used, instead of waiting for each.
void WebdatasetReader::locate(std::span<const std::int64_t> indexes) {
  std::vector<SamplePiece>& pieces = layout_->pieces;
  for (const std::int64_t index : indexes) {
    const Webdataset::Position position = dataset_->position_of(index);
    pieces.push_back({.shard = position.shard, .sample = position.sample});
    shards_->prefetch(position.shard);
  }
  for (const SamplePiece& piece : pieces) {
    shards_->prefetch(piece.shard, piece.sample);
    __builtin_prefetch(dataset_->source(piece.shard).get(), 1);
  }
  const bool verifies_all = dataset_->options().verify_checksums == VerifyChecksums::kAlways;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    locate(pieces[i], verifies_all || indexes[i] % 16 == 0);
  }
}

void WebdatasetReader::locate(SamplePiece& piece, bool verify) {
  shards_->begin_round();
  const ShardIndex& shard = shards_->index(piece.shard);
  piece.range = shard.entries.range(piece.sample);
  if (const std::uint64_t most = dataset_->options().max_sample_bytes; piece.range.size > most) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("sample {} has {} bytes, the limit max_sample_bytes is {}",
                            piece.sample, piece.range.size, most),
                {.path = shards_->file(piece.shard).tar_path, .byte_offset = piece.range.offset});
  }
  if (shard.checksums) {
    piece.verify = verify;
    piece.expected_digest = shard.checksums->digest(piece.sample);
  }
}

// Reads all pieces into `buffers_`. Samples that were read ahead are parsed where they were read,
// so that only their parts are copied; the others stay without a key.
void WebdatasetReader::read_runs(const LeafShare* share, BufferAllocator& allocator,
                                 std::span<Sample> samples) {
  ReadRound round(*shards_, helper_.get());
  ahead_->prefetch(layout_->runs);
  for (const PieceRun& run : layout_->runs) {
    if (round.is_full()) {
      round.finish();
    }
    if (run.buffer == buffers_.size()) {
      buffers_.push_back(allocator.allocate(layout_->buffer_sizes[run.buffer]));
    }
    if (share != nullptr && run.range.size <= ReadAhead::kLargestRequest) {
      if (const ByteView bytes = read_ahead(run, *share, round); !bytes.empty()) {
        parse_ahead(run, bytes, samples);
        continue;
      }
    }
    round.add(round.tar(run.shard), run.range.offset,
              buffers_[run.buffer].bytes.subspan(run.buffer_offset, run.range.size));
  }
  round.finish();
}

// The bytes of `run`, valid until the next call; empty if they are not read ahead.
ByteView WebdatasetReader::read_ahead(const PieceRun& run, const LeafShare& share,
                                      ReadRound& round) {
  const AheadRequest request{
      .shard = run.shard, .first = run.first, .end = run.end, .range = run.range};
  if (const ByteView bytes = ahead_->take(request); !bytes.empty()) {
    return bytes;
  }
  if (!ahead_->continues(request)) {
    return {};
  }
  const FileSource& tar = round.tar(run.shard);
  const std::int64_t first_of_shard = dataset_->first_of_shard(run.shard);
  const std::int64_t end = share.end_of_part(first_of_shard + run.end - 1) - first_of_shard;
  return ahead_->read(request, tar, shards_->index(run.shard).entries, end);
}

// Of several damaged samples, the first in the order of the batch must be reported. So a sample
// that cannot be parsed goes to its place as it is, and is parsed again in that order.
void WebdatasetReader::parse_ahead(const PieceRun& run, ByteView bytes, std::span<Sample> samples) {
  for (std::size_t i = run.first_place; !bytes.empty(); ++i) {
    const std::size_t position = layout_->by_place[i];
    const SamplePiece& piece = layout_->pieces[position];
    const ByteView own = bytes.first(piece.range.size);
    try {
      samples[position] = parse(piece, own);
    } catch (const Error&) {
      std::memcpy(buffers_[run.buffer].bytes.data() + piece.buffer_offset, own.data(), own.size());
    }
    bytes = bytes.subspan(own.size());
  }
}

FailedSample WebdatasetReader::describe(std::int64_t index) {
  const Webdataset::Position position = dataset_->position_of(index);
  FailedSample sample{.dataset_path = dataset_->shards().dataset_path,
                      .shard_name = dataset_->source(position.shard)->shard_name,
                      .index_in_shard = position.sample};
  try {
    sample.bytes = shards_->index(position.shard).entries.range(position.sample);
  } catch (const Error&) {
    // The bytes stay unknown.
  }
  return sample;
}

std::optional<std::int64_t> WebdatasetReader::broken_file(std::int64_t index) {
  const std::int64_t shard = dataset_->position_of(index).shard;
  return can_open_shard(shard) ? std::nullopt : std::optional(shard);
}

bool WebdatasetReader::can_open_shard(std::int64_t shard) {
  try {
    shards_->begin_round();
    shards_->tar(shard);
    shards_->index(shard);
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) {
      throw;  // the system refuses, which says nothing about the shard
    }
    return false;
  }
}

std::int64_t WebdatasetReader::index_at(std::int64_t shard, const ByteRange& bytes) {
  shards_->begin_round();
  const TarIndex& index = shards_->index(shard).entries;
  const auto begins = index.entries();
  const auto begin = std::lower_bound(begins.begin(), begins.end() - 1, bytes.offset);
  const std::int64_t sample = begin - begins.begin();
  if (begin == begins.end() - 1 || *begin != bytes.offset ||
      index.range(sample).end() != bytes.end()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("no sample lies at the bytes {} to {} that the join index names; run "
                            "energon prepare on the metadataset again",
                            bytes.offset, bytes.end()),
                {.path = shards_->file(shard).tar_path, .byte_offset = bytes.offset});
  }
  return dataset_->first_of_shard(shard) + sample;
}

// Checks the samples of shards whose index has no recorded digest. Goes by place, so that each
// shard is opened once, however many there are in a batch. All samples of a shard are noted first,
// because neighbours that were read together confirm each other's boundaries.
void WebdatasetReader::check_boundaries(std::span<const Sample> samples) {
  const std::vector<SamplePiece>& pieces = layout_->pieces;
  const std::vector<std::size_t>& by_place = layout_->by_place;
  for (auto begin = by_place.begin(); begin != by_place.end();) {
    const std::int64_t number = pieces[*begin].shard;
    const auto end = std::find_if(begin, by_place.end(),
                                  [&](std::size_t i) { return pieces[i].shard != number; });
    if (!shards_->file(number).index_digest) {
      shards_->begin_round();
      const ShardIndex& shard = shards_->index(number);
      for (auto i = begin; i != end; ++i) {
        shard.boundaries->note(pieces[*i].sample, samples[*i].keys.front());
      }
      const FileSource& tar = shards_->tar(number);
      for (auto i = begin; i != end; ++i) {
        try {
          shard.boundaries->check(tar, shard.entries, pieces[*i].sample);
        } catch (Error& error) {
          throw error.with({.sample_key = std::string(samples[*i].keys.front())});
        }
      }
    }
    begin = end;
  }
}

}  // namespace energon
