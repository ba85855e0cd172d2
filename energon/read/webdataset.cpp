#include "energon/read/webdataset.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/read/batch_layout.h"
#include "energon/read/leaf_readers.h"
#include "energon/read/read_ahead.h"
#include "energon/read/read_helper.h"
#include "energon/read/shard_cache.h"
#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"

namespace energon {

// A batch of reads, whose tars are all open at the same time.

/// Collects reads, and performs them when there are enough bytes, or more tars than may stay open.
/// Not thread-safe.
class ReadRound {
 public:
  /// If `helper` is null, reads alone. Both arguments are borrowed.
  ReadRound(ShardCache& shards, ReadHelper* helper);

  /// Whether enough bytes are waiting that they should be read before more memory is allocated.
  bool is_full() const { return bytes_ >= kMostBytes; }

  /// An open tar, valid until the next call of a member function other than add(). Add all reads
  /// of a tar in a row. Throws Error like ShardCache::tar(), and for reads performed to make room.
  const FileSource& tar(std::int64_t shard);
  /// Requires: `tar` was returned by the last call of tar().
  void add(const FileSource& tar, std::uint64_t offset, std::span<std::byte> out);

  /// Performs the added reads. Throws Error like FileSource::read_at().
  void finish();

 private:
  // Bytes per wakeup of the helper. Less than a batch, so that buffers which the trainer returns
  // meanwhile are reused.
  static constexpr std::size_t kMostBytes = 2 * ReadHelper::kLeastBytes;

  ShardCache& shards_;
  ReadHelper* const helper_;
  std::vector<FileRead> reads_;
  std::size_t bytes_ = 0;
  std::size_t tars_ = 0;    // requested since the last reads
  std::int64_t last_ = -1;  // the last of these tars
};

ReadRound::ReadRound(ShardCache& shards, ReadHelper* helper) : shards_(shards), helper_(helper) {
  shards_.begin_round();
}

const FileSource& ReadRound::tar(std::int64_t shard) {
  if (shard != last_ && tars_ >= shards_.capacity()) {
    finish();
  }
  if (shard != last_) {
    last_ = shard;
    ++tars_;
  }
  try {
    return shards_.tar(shard);
  } catch (const TooManyOpenFiles&) {
    if (tars_ == 1) {
      throw;
    }
  }
  finish();
  last_ = shard;
  tars_ = 1;
  return shards_.tar(shard);
}

void ReadRound::add(const FileSource& tar, std::uint64_t offset, std::span<std::byte> out) {
  reads_.push_back({&tar, offset, out});
  bytes_ += out.size();
}

void ReadRound::finish() {
  if (helper_ != nullptr) {
    helper_->read(reads_);
  } else {
    read_alone(reads_);
  }
  reads_.clear();
  bytes_ = 0;
  tars_ = 0;
  last_ = -1;
  shards_.begin_round();
}

// --- Webdataset ---

namespace {

// Part of every state, so the number of lines is bounded: with more shards than lines, a line has
// the digest of several shards.
Config describe_shards(const std::vector<ShardFile>& all) {
  constexpr std::size_t kLines = 1024;
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
  return lines;
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
  const auto positions = [&](const std::vector<SampleExclude>& excludes) {
    std::vector<std::int64_t> positions;
    positions.reserve(excludes.size());
    for (const SampleExclude& exclude : excludes) {
      positions.push_back(begins.at(static_cast<std::size_t>(exclude.shard)) + exclude.sample);
    }
    std::sort(positions.begin(), positions.end());
    return positions;
  };
  excluded_ = positions(shards_.excludes);
  excluded_in_place_ = positions(shards_.excludes_in_place);
}

Config Webdataset::config() const {
  Config config = {{"type", "Webdataset"},
                   {"samples", sample_count()},
                   {"shards", describe_shards(shards_.shards)},
                   {"excluded", to_hex(xxh3_64(std::as_bytes(std::span(excluded_))))}};
  if (!shards_.media_filter.empty()) {
    config["media_filter"] = shards_.media_filter;
  }
  if (options_.part_filter) {
    Config& parts = config["parts"] = Config::array();
    for (const std::string& part : *options_.part_filter) {
      parts.push_back(printable(part));
    }
  }
  if (!options_.loaded_by.empty()) {
    config["loaded_by"] = printable(options_.loaded_by);
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
        fmt::format("sample {} does not exist: the split has {} samples", index, sample_count()));
  }
  const auto shard =
      std::upper_bound(shard_ends_.begin(), shard_ends_.end(), index) - shard_ends_.begin();
  return {shard, index - first_of_shard(shard)};
}

// --- WebdatasetReader ---

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
                fmt::format("sample {} has {} bytes, but max_sample_bytes is {}", piece.sample,
                            piece.range.size, most),
                {.path = shards_->file(piece.shard).tar_path, .byte_offset = piece.range.offset});
  }
  if (shard.checksums) {
    piece.verify = verify;
    piece.expected_digest = shard.checksums->digest(piece.sample);
  }
}

// Reads all pieces into `buffers_`. Samples that were read ahead are parsed in the read-ahead
// block, so that only their parts are copied. The others have no key yet.
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

// The bytes of `run`, valid until the next call, or none if they are not read ahead.
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

// If several samples are damaged, the first in the order of the batch must be reported. So a
// sample that cannot be parsed is copied verbatim, and parsed again in that order.
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
    // The byte range stays unknown.
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
      throw;  // refused by the system, not caused by the shard
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
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("found no sample at bytes {} to {}, which the join index refers to; run "
                    "energon prepare on the metadataset again",
                    bytes.offset, bytes.end()),
        {.path = shards_->file(shard).tar_path, .byte_offset = bytes.offset});
  }
  return dataset_->first_of_shard(shard) + sample;
}

// Checks the samples of shards whose index has no recorded digest, in the order of their places, so
// that each shard is opened once per batch. All samples of a shard are noted first, because
// neighbors that were read together confirm each other's boundaries.
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

// --- ShardFingerprint ---

namespace {

constexpr std::uint64_t kLongestFile = std::uint64_t{1} << 36;

// Digest of the index or the checksum file, from prepare's record or a summary.
std::optional<std::uint64_t> known_digest(const ShardFile& shard,
                                          const std::string ShardFile::*path) {
  if (path != &ShardFile::index_path) {
    return shard.checksum_digest;
  }
  return shard.index_digest ? shard.index_digest : shard.noted_index_digest;
}

// XXH3 of the digests of one file of each shard. Broken shards are omitted; their lines in the
// configuration mark them.
std::string digest_of_files(std::span<const ShardFile> shards, const std::string ShardFile::*path) {
  std::vector<std::uint64_t> digests(shards.size());
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (const auto known = known_digest(shards[i], path)) {
      digests[i] = *known;
    } else if (!shards[i].is_broken) {
      unknown.push_back(i);
    }
  }
  const auto total = static_cast<std::int64_t>(unknown.size());
  const auto errors = parallel_for(total, thread_count(std::nullopt, total), [&](std::int64_t job) {
    const std::size_t i = unknown[static_cast<std::size_t>(job)];
    digests[i] = xxh3_64(as_bytes(read_file(shards[i].*path, kLongestFile)));
  });
  rethrow_first(errors);
  return to_hex(xxh3_64(std::as_bytes(std::span(digests))));
}

}  // namespace

const ShardFingerprint::Members& ShardFingerprint::of(std::span<const ShardFile> shards) const {
  std::call_once(once_, [&] {
    Members members = {{"indexes", digest_of_files(shards, &ShardFile::index_path)}};
    const bool have_checksums = std::none_of(shards.begin(), shards.end(), [](const auto& shard) {
      return !shard.is_broken && shard.checksum_path.empty();
    });
    if (have_checksums) {
      members.emplace_back("checksums", digest_of_files(shards, &ShardFile::checksum_path));
    }
    members_ = std::move(members);
  });
  return members_;
}

}  // namespace energon
