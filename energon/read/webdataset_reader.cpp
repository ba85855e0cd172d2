#include "energon/read/webdataset_reader.h"

#include <algorithm>
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
  const std::vector<Buffer> buffers = read_runs(share, allocator);
  const std::size_t first = samples.size();
  try {
    std::size_t parts = 0;
    for (const SamplePiece& piece : layout_->pieces) {
      samples.push_back(parse_sample(*dataset_, piece, buffers[piece.buffer], parts));
      parts = samples.back().fields.size();
    }
    check_boundaries(std::span(samples).subspan(first));
  } catch (...) {
    samples.resize(first);
    throw;
  }
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

std::vector<Buffer> WebdatasetReader::read_runs(const LeafShare* share,
                                                BufferAllocator& allocator) {
  std::vector<Buffer> buffers;
  ReadRound round(*shards_, helper_.get());
  ahead_->prefetch(layout_->runs);
  for (const PieceRun& run : layout_->runs) {
    if (round.is_full()) {
      round.finish();
    }
    if (run.buffer == buffers.size()) {
      buffers.push_back(allocator.allocate(layout_->buffer_sizes[run.buffer]));
    }
    const std::span<std::byte> out =
        buffers[run.buffer].bytes.subspan(run.buffer_offset, run.range.size);
    if (share != nullptr && out.size() <= ReadAhead::kLargestRequest) {
      const AheadRequest request{
          .shard = run.shard, .first = run.first, .end = run.end, .range = run.range, .out = out};
      if (ahead_->copy(request) ||
          (ahead_->continues(request) && read_ahead(request, *share, round.tar(run.shard)))) {
        continue;
      }
    }
    round.add(round.tar(run.shard), run.range.offset, out);
  }
  round.finish();
  return buffers;
}

bool WebdatasetReader::read_ahead(const AheadRequest& request, const LeafShare& share,
                                  const FileSource& tar) {
  const std::int64_t first_of_shard = dataset_->first_of_shard(request.shard);
  const std::int64_t end = share.end_of_part(first_of_shard + request.end - 1) - first_of_shard;
  return ahead_->read(request, tar, shards_->index(request.shard).entries, end);
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
          throw error.with({.sample_key = samples[*i].keys.front()});
        }
      }
    }
    begin = end;
  }
}

}  // namespace energon
