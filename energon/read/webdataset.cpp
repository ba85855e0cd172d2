#include "energon/read/webdataset.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/read/repeated_part.h"
#include "io/error.h"
#include "io/hash.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

// Parts begin 512 bytes apart in a tar, so pieces that begin on this boundary give tensors their
// alignment.
constexpr std::size_t kPieceAlignment = 64;

// A batch of large samples is read into several buffers of about this size: the trainer gives them
// back while the next batch is read, so that fewer bytes are in flight than two whole batches, and
// the copy stays in the CPU's cache.
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// As many bytes are read with one waking of the helper. Not all of a batch, so that buffers which
// the trainer gives back meanwhile are used.
constexpr std::size_t kRoundBytes = 2 * ReadHelper::kLeastBytes;

std::size_t aligned(std::size_t size) {
  return (size + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

}  // namespace

Webdataset::Webdataset(ShardSet shards, const WebdatasetOptions& options)
    : shards_(std::move(shards)), options_(options) {
  std::int64_t end = 0;
  std::vector<std::int64_t> begins;
  for (const ShardFile& shard : shards_.shards) {
    begins.push_back(end);
    end += shard.sample_count;
    shard_counts_.push_back(shard.sample_count);
    shard_ends_.push_back(end);
    sources_.push_back(std::make_shared<const SourceShard>(
        SourceShard{shards_.dataset_path, shard.name, options_.subflavors}));
  }
  for (const SampleExclude& exclude : shards_.excludes) {
    excluded_.push_back(begins.at(static_cast<std::size_t>(exclude.shard)) + exclude.sample);
  }
  std::sort(excluded_.begin(), excluded_.end());
}

Config Webdataset::config() const {
  // A state carries this, so it is bounded: with more shards than lines, a line stands for several
  // shards by digest.
  constexpr std::size_t kLines = 1024;
  const auto& all = shards_.shards;
  const std::size_t shards_per_line = std::max<std::size_t>((all.size() + kLines - 1) / kLines, 1);
  Config lines = Config::array();
  for (std::size_t first = 0; first < all.size(); first += shards_per_line) {
    const auto block = std::span(all).subspan(first, std::min(shards_per_line, all.size() - first));
    std::string text;
    for (const ShardFile& shard : block) {
      text += fmt::format("{}: {} samples, {}", printable(shard.name), shard.sample_count,
                          shard.is_broken ? "broken" : fmt::format("{} bytes", shard.tar_size));
    }
    lines.push_back(block.size() == 1
                        ? text
                        : fmt::format("shards {} to {}: digest {}", first, first + block.size() - 1,
                                      to_hex(xxh3_64(as_bytes(text)))));
  }
  Config config = {{"type", "Webdataset"},
                   {"samples", sample_count()},
                   {"shards", std::move(lines)},
                   {"excluded", to_hex(xxh3_64(std::as_bytes(std::span(excluded_))))}};
  if (options_.part_filter) {
    Config& parts = config["parts"] = Config::array();
    for (const std::string& part : *options_.part_filter) {
      parts.push_back(printable(part));
    }
  }
  for (const auto& [name, digest] : fingerprint_.of(shards_.shards)) {
    config[name] = digest;
  }
  return config;
}

bool Webdataset::has_part(std::string_view part) const {
  const auto& parts = options_.part_filter;
  return !parts || std::find(parts->begin(), parts->end(), part) != parts->end();
}

std::unique_ptr<LeafReader> Webdataset::open_reader() const {
  return std::make_unique<WebdatasetReader>(shared_from_this());
}

Webdataset::Position Webdataset::position_of(std::int64_t index) const {
  if (index < 0 || index >= sample_count()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("sample {} does not exist, the split has {} samples", index, sample_count()));
  }
  const auto shard =
      std::upper_bound(shard_ends_.begin(), shard_ends_.end(), index) - shard_ends_.begin();
  return {shard, index - first_of_shard(shard)};
}

/// One sample to read: where it lies in its tar, and where in the buffer.
struct WebdatasetReader::Piece {
  std::int64_t shard = 0;
  std::int64_t sample = 0;
  ByteRange range;
  std::size_t buffer = 0;
  std::size_t buffer_offset = 0;
  bool verify = false;
  std::uint64_t expected_digest = 0;
};

/// Neighbours of a tar, which are read together.
struct WebdatasetReader::Run {
  std::int64_t shard = 0;
  ByteRange range;
  std::size_t buffer = 0;
  std::size_t buffer_offset = 0;
};

WebdatasetReader::WebdatasetReader(std::shared_ptr<const Webdataset> dataset)
    : dataset_(std::move(dataset)),
      cache_(dataset_->shards().shards, dataset_->options().open_shards,
             dataset_->options().verify_checksums != VerifyChecksums::kOff) {}

std::vector<WebdatasetReader::Piece> WebdatasetReader::locate(
    std::span<const std::int64_t> indexes) {
  const WebdatasetOptions& options = dataset_->options();
  std::vector<Piece> pieces;
  pieces.reserve(indexes.size());
  for (const std::int64_t index : indexes) {
    const Webdataset::Position position = dataset_->position_of(index);
    const OpenShard& shard = cache_.open(position.shard);
    Piece piece{.shard = position.shard,
                .sample = position.sample,
                .range = shard.index.range(position.sample)};
    if (piece.range.size > options.max_sample_bytes) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("sample {} has {} bytes, the limit max_sample_bytes is {}",
                              position.sample, piece.range.size, options.max_sample_bytes),
                  {.path = shard.tar.path(), .byte_offset = piece.range.offset});
    }
    piece.verify = shard.checksums &&
                   (options.verify_checksums == VerifyChecksums::kAlways || index % 16 == 0);
    piece.expected_digest = shard.checksums ? shard.checksums->digest(position.sample) : 0;
    pieces.push_back(piece);
  }
  return pieces;
}

void WebdatasetReader::read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
                            std::vector<Sample>& samples) {
  if (indexes.empty()) {
    return;
  }
  std::vector<Piece> pieces = locate(indexes);
  // Neighbours in a tar become one run: pieces are laid out in the order of their place on disk.
  std::vector<std::size_t> by_place(pieces.size());
  std::iota(by_place.begin(), by_place.end(), std::size_t{0});
  std::sort(by_place.begin(), by_place.end(), [&pieces](std::size_t a, std::size_t b) {
    return std::pair(pieces[a].shard, pieces[a].range.offset) <
           std::pair(pieces[b].shard, pieces[b].range.offset);
  });
  std::vector<Run> runs;
  std::vector<std::size_t> buffer_sizes(1);
  for (const std::size_t i : by_place) {
    Piece& piece = pieces[i];
    const bool follows = !runs.empty() && runs.back().shard == piece.shard &&
                         runs.back().range.end() == piece.range.offset;
    const bool fits =
        buffer_sizes.back() == 0 || aligned(buffer_sizes.back()) + piece.range.size <= kBufferBytes;
    if (!fits) {
      buffer_sizes.push_back(0);
    }
    if (follows && fits) {
      piece.buffer_offset = runs.back().buffer_offset + runs.back().range.size;
      runs.back().range.size += piece.range.size;
    } else {
      piece.buffer_offset = aligned(buffer_sizes.back());
      runs.push_back({piece.shard, piece.range, buffer_sizes.size() - 1, piece.buffer_offset});
    }
    piece.buffer = buffer_sizes.size() - 1;
    buffer_sizes.back() = piece.buffer_offset + piece.range.size;
  }
  const std::vector<Buffer> buffers = read_runs(runs, buffer_sizes, allocator);
  const std::size_t first = samples.size();
  try {
    for (const Piece& piece : pieces) {
      samples.push_back(parse(piece, buffers[piece.buffer]));
    }
    check_boundaries(pieces, by_place, std::span(samples).subspan(first));
  } catch (...) {
    samples.resize(first);
    throw;
  }
}

// The runs of a shard lie together, and a round has no more shards than stay open.
std::vector<Buffer> WebdatasetReader::read_runs(std::span<const Run> runs,
                                                const std::vector<std::size_t>& buffer_sizes,
                                                BufferAllocator& allocator) {
  std::vector<Buffer> buffers;
  buffers.reserve(buffer_sizes.size());
  std::vector<FileRead> round;
  std::size_t round_bytes = 0;
  std::size_t round_shards = 0;
  const auto end_round = [&] {
    if (helper_) {
      helper_->read(round);
    } else {
      read_alone(round);
    }
    round.clear();
    round_bytes = 0;
    round_shards = 0;
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    const bool is_other_shard = i == 0 || runs[i - 1].shard != run.shard;
    if (round_bytes >= kRoundBytes || (is_other_shard && round_shards == cache_.capacity())) {
      end_round();
    }
    if (is_other_shard || round.empty()) {
      ++round_shards;
    }
    if (run.buffer == buffers.size()) {
      buffers.push_back(allocator.allocate(buffer_sizes[run.buffer]));
    }
    round.push_back({&cache_.open(run.shard).tar, run.range.offset,
                     buffers.back().bytes.subspan(run.buffer_offset, run.range.size)});
    round_bytes += run.range.size;
  }
  end_round();
  return buffers;
}

FailedSample WebdatasetReader::describe(std::int64_t index) {
  const Webdataset::Position position = dataset_->position_of(index);
  FailedSample sample{.dataset_path = dataset_->shards().dataset_path,
                      .shard_name = dataset_->source(position.shard)->shard_name,
                      .index_in_shard = position.sample};
  try {
    sample.bytes = cache_.open(position.shard).index.range(position.sample);
  } catch (const Error&) {
    // Then the bytes are not known.
  }
  return sample;
}

std::optional<std::int64_t> WebdatasetReader::broken_file(std::int64_t index) {
  const std::int64_t shard = dataset_->position_of(index).shard;
  return can_open_shard(shard) ? std::nullopt : std::optional(shard);
}

bool WebdatasetReader::can_open_shard(std::int64_t shard) {
  try {
    cache_.open(shard);
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) {
      throw;  // the system refuses: that says nothing about the shard
    }
    return false;
  }
}

std::int64_t WebdatasetReader::index_at(std::int64_t shard, const ByteRange& bytes) {
  const OpenShard& open = cache_.open(shard);
  const auto begins = open.index.entries();
  const auto begin = std::lower_bound(begins.begin(), begins.end() - 1, bytes.offset);
  const std::int64_t sample = begin - begins.begin();
  if (begin == begins.end() - 1 || *begin != bytes.offset ||
      open.index.range(sample).end() != bytes.end()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("no sample lies at the bytes {} to {} that the join index names; run "
                            "energon prepare on the metadataset again",
                            bytes.offset, bytes.end()),
                {.path = open.tar.path(), .byte_offset = bytes.offset});
  }
  return dataset_->first_of_shard(shard) + sample;
}

// Where nothing vouches for the index. By place, so that each shard is opened once, however many
// there are in a batch. First all samples of a shard are noted: neighbours that were read together
// prove each other.
void WebdatasetReader::check_boundaries(std::span<const Piece> pieces,
                                        std::span<const std::size_t> by_place,
                                        std::span<const Sample> samples) {
  for (auto begin = by_place.begin(); begin != by_place.end();) {
    const std::int64_t number = pieces[*begin].shard;
    const auto end = std::find_if(begin, by_place.end(),
                                  [&](std::size_t i) { return pieces[i].shard != number; });
    if (!dataset_->shards().shards[static_cast<std::size_t>(number)].index_digest) {
      const OpenShard& shard = cache_.open(number);
      for (auto i = begin; i != end && shard.boundaries; ++i) {
        shard.boundaries->note(pieces[*i].sample, samples[*i].keys.front());
      }
      for (auto i = begin; i != end && shard.boundaries; ++i) {
        try {
          shard.boundaries->check(shard.tar, shard.index, pieces[*i].sample);
        } catch (Error& error) {
          throw error.with({.sample_key = samples[*i].keys.front()});
        }
      }
    }
    begin = end;
  }
}

Sample WebdatasetReader::parse(const Piece& piece, const Buffer& buffer) const {
  const ByteView bytes = buffer.bytes.subspan(piece.buffer_offset, piece.range.size);
  const ShardFile& shard = dataset_->shards().shards[static_cast<std::size_t>(piece.shard)];
  Sample sample;
  try {
    if (piece.verify && xxh3_64(bytes) != piece.expected_digest) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("sample {} does not have the checksum it was prepared with; the "
                              "shard is damaged or was "
                              "changed",
                              piece.sample));
    }
    TarWalker walker(bytes, piece.range.offset);
    while (const auto member = walker.next()) {
      const auto name =
          member->type == MemberType::kRegular ? split_member_name(member->name) : std::nullopt;
      if (!name) {
        continue;
      }
      if (member->sparse) {
        throw Error(ErrorCode::kUnsupported, "sparse members cannot be read",
                    {.byte_offset = member->header_offset});
      }
      if (sample.keys.empty()) {
        sample.keys.emplace_back(name->key);
      } else if (sample.keys.front() != name->key) {
        throw Error(ErrorCode::kCorruptData,
                    fmt::format("the index says that one sample lies here, but its parts have the "
                                "keys '{}' and '{}'; "
                                "prepare the dataset again",
                                printable(sample.keys.front()), printable(name->key)),
                    {.byte_offset = member->header_offset});
      }
      if (!dataset_->has_part(name->part)) {
        continue;
      }
      sample.fields.emplace_back(std::string(name->part),
                                 SharedBytes{walker.data(*member), buffer.owner});
    }
    if (sample.keys.empty()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the index says that sample {} lies here, but there is no part of a "
                              "sample; prepare the "
                              "dataset again",
                              piece.sample));
    }
    check_parts_differ(sample.fields, bytes, piece.range.offset);
  } catch (Error& error) {
    error.with({.path = shard.tar_path, .byte_offset = piece.range.offset});
    if (!sample.keys.empty()) {
      error.with({.sample_key = sample.keys.front()});
    }
    throw;
  }
  sample.sources.push_back({.shard = dataset_->source(piece.shard),
                            .index_in_shard = piece.sample,
                            .bytes = piece.range,
                            .checksum = piece.expected_digest});
  return sample;
}

}  // namespace energon
