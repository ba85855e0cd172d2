#include "energon/read/jsonl_dataset.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

// The place of a sample in the file and in the buffer of its batch.
struct Place {
  ByteRange range;                  // in the file
  std::uint64_t buffer_offset = 0;  // of its first byte
};

}  // namespace

JsonlDataset::JsonlDataset(std::string path, const std::optional<std::string>& cache_dir,
                           std::string subflavors, const std::vector<std::string>& exclude_files,
                           std::uint64_t max_sample_bytes)
    : path_(std::move(path)),
      identity_(FileSource(path_).identity()),
      index_(JsonlIndex::load(ensure_jsonl_indexed(path_, cache_dir), identity_.size_bytes)),
      shard_counts_({index_.sample_count()}),
      quarantined_(find_quarantined_lines(exclude_files, path_, index_.sample_count())),
      max_sample_bytes_(max_sample_bytes),
      source_(std::make_shared<const SourceShard>(
          SourceShard{.dataset_path = path_,
                      .shard_name = std::filesystem::path(path_).filename().string(),
                      .subflavors = std::move(subflavors)})) {}

Config JsonlDataset::config() const {
  return {{"type", "Jsonl"},
          {"file", printable(source_->shard_name)},
          {"samples", sample_count()},
          {"bytes", identity_.size_bytes},
          {"index", to_hex(index_.digest())},
          {"excluded", to_hex(xxh3_64(std::as_bytes(std::span(excluded()))))}};
}

std::unique_ptr<LeafReader> JsonlDataset::open_reader() const {
  return std::make_unique<JsonlReader>(shared_from_this());
}

const FileSource& JsonlReader::file() {
  if (!file_) {
    FileSource file(dataset_->path());
    if (file.identity() != dataset_->identity()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the file changed since the dataset was opened (expected {} bytes, "
                              "found {})",
                              dataset_->identity().size_bytes, file.size()),
                  {.path = dataset_->path()});
    }
    file_.emplace(std::move(file));
  }
  return *file_;
}

std::optional<std::int64_t> JsonlReader::broken_file(std::int64_t /*index*/) {
  try {
    file();
    return std::nullopt;
  } catch (const Error&) {
    return 0;
  }
}

FailedSample JsonlReader::describe(std::int64_t index) {
  return {.key = std::to_string(index),
          .dataset_path = dataset_->path(),
          .shard_name = dataset_->source()->shard_name,
          .index_in_shard = index,
          .bytes = dataset_->index().range(index)};
}

void JsonlReader::read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
                       std::vector<Sample>& samples) {
  // Neighbors in the file are read in one call, together with the byte before them, which shows
  // whether they begin a line.
  std::vector<Place> places;
  std::vector<ByteRange> runs;
  std::uint64_t size = 0;
  for (const std::int64_t index : indexes) {
    const ByteRange range = dataset_->index().range(index);
    if (range.size > dataset_->max_sample_bytes()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("sample {} has {} bytes, but max_sample_bytes is {}", index,
                              range.size, dataset_->max_sample_bytes()),
                  {.path = dataset_->path(),
                   .byte_offset = range.offset,
                   .sample_key = std::to_string(index)});
    }
    if (runs.empty() || runs.back().end() != range.offset) {
      const std::uint64_t before = range.offset > 0 ? 1 : 0;
      runs.push_back({.offset = range.offset - before, .size = before});
      size += before;
    }
    runs.back().size += range.size;
    places.push_back({range, size});
    size += range.size;
  }
  const Buffer buffer = allocator.allocate(size);
  std::uint64_t offset = 0;
  for (const ByteRange& run : runs) {
    file().read_at(run.offset, buffer.bytes.subspan(offset, run.size));
    offset += run.size;
  }
  const std::string_view text = as_text(buffer.bytes);
  std::vector<Sample> lines;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& [range, begin] = places[i];
    Sample sample;
    sample.keys.push_back(std::to_string(indexes[i]));
    try {
      const std::string_view line =
          whole_line(text.substr(begin, range.size),
                     range.offset > 0 ? std::optional(text[begin - 1]) : std::nullopt, range,
                     dataset_->identity().size_bytes);
      sample.fields.emplace_back("json", SharedBytes{as_bytes(line), buffer.owner});
    } catch (Error& error) {
      error.with({.path = dataset_->path(), .sample_key = std::string(sample.keys.front())});
      throw;
    }
    sample.sources.push_back(
        {.shard = dataset_->source(), .index_in_shard = indexes[i], .bytes = range});
    lines.push_back(std::move(sample));
  }
  std::move(lines.begin(), lines.end(), std::back_inserter(samples));
}

}  // namespace energon
