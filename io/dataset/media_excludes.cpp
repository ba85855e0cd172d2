#include "io/dataset/media_excludes.h"

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index.h"

namespace energon {
namespace {

// What a condition says of one shard.
struct FilteredShard {
  std::vector<SampleExclude> excludes = {};
  std::int64_t known = 0;  // samples with media metadata that counts
};

class MediaFilteredShard {
 public:
  MediaFilteredShard(const MediaCondition& condition, std::int64_t shard, const ShardFile& file)
      : condition_(condition), shard_(shard), file_(file) {}

  FilteredShard read(const SampleIndex& index, std::int64_t tar_file_id,
                     const std::string& index_path) {
    index.for_each_media_of(
        tar_file_id, condition_.part, [&](std::int64_t sample, const MediaMetadata& metadata) {
          if (sample >= file_.sample_count || sample < current_) {
            throw Error(ErrorCode::kCorruptData,
                        fmt::format("index.sqlite has media of sample {} of shard '{}', which has "
                                    "{} samples; prepare the dataset again",
                                    sample, printable(file_.name), file_.sample_count),
                        {.path = index_path});
          }
          advance_to(sample);
          media_.push_back(metadata);
        });
    advance_to(file_.sample_count);
    return std::move(result_);
  }

 private:
  // Decides on the samples before `sample`.
  void advance_to(std::int64_t sample) {
    for (; current_ < sample; ++current_) {
      result_.known += media_.empty() ? 0 : 1;
      if (media_.empty() || !fulfils(media_, condition_)) {
        result_.excludes.push_back({.shard = shard_, .sample = current_});
      }
      media_.clear();
    }
  }

  const MediaCondition& condition_;
  const std::int64_t shard_;
  const ShardFile& file_;
  FilteredShard result_;
  std::int64_t current_ = 0;
  std::vector<MediaMetadata> media_;  // of sample current_
};

void check_has_media(const std::string& index_path, const ShardSet& set) {
  if (!path_exists(index_path) || !SampleIndex(index_path).has_media()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("media_filter needs media metadata, which the dataset does not have; "
                            "run: energon prepare-media {} --media-metadata-by-extension",
                            printable(set.dataset_path)),
                {.path = set.dataset_path});
  }
}

[[noreturn]] void fail_nothing_left(const MediaCondition& condition, const ShardSet& set,
                                    std::int64_t samples, std::int64_t known) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("media_filter leaves nothing: none of {} samples, of which {} have media "
                          "metadata, fulfils '{}'",
                          samples, known, to_string(condition)),
              {.path = set.dataset_path});
}

}  // namespace

void exclude_by_media(const OpenOptions& options, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set) {
  const MediaCondition& condition = *options.media_filter;
  check_has_media(index_path, set);
  std::unordered_map<std::string_view, std::int64_t> ids;
  for (const ShardCount& shard : info.shards) {
    ids.emplace(shard.name, static_cast<std::int64_t>(ids.size()));
  }
  const auto total = static_cast<std::int64_t>(set.shards.size());
  std::vector<FilteredShard> shards(set.shards.size());
  const auto filter = [&](std::int64_t shard) {
    const auto i = static_cast<std::size_t>(shard);
    const ShardFile& file = set.shards[i];
    if (!file.is_broken) {
      shards[i] = MediaFilteredShard(condition, shard, file)
                      .read(SampleIndex(index_path), ids.at(file.name), index_path);
    }
  };
  rethrow_first(parallel_for(total, thread_count(options.index_threads, total), filter));
  std::int64_t samples = 0;
  std::int64_t known = 0;
  std::int64_t left = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto& excludes = shards[i].excludes;
    const std::int64_t count = set.shards[i].is_broken ? 0 : set.shards[i].sample_count;
    samples += count;
    known += shards[i].known;
    left += count - static_cast<std::int64_t>(excludes.size());
    set.excludes.insert(set.excludes.end(), excludes.begin(), excludes.end());
  }
  if (left == 0) {
    fail_nothing_left(condition, set, samples, known);
  }
  set.media_filter = to_string(condition);
}

}  // namespace energon
