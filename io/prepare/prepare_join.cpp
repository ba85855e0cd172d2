#include "io/prepare/prepare_join.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/dataset/dataset_info.h"
#include "io/dataset/excluded_samples.h"
#include "io/dataset/prepare_commit.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/jsonl_index.h"
#include "io/index/sample_index.h"
#include "io/prepare/staging_folder.h"
#include "io/recipe/join_index.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShownKeys = 5;

void check_not_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) {
    throw Error(ErrorCode::kCancelled, "prepare was stopped; the existing index is unchanged");
  }
}

// One dataset of a join, with its index open.
class Side {
 public:
  explicit Side(const JoinSource& source)
      : source_(source), index_(open_index(source.dataset_path)) {
    if (const auto keys = index_.duplicate_keys(kShownKeys); !keys.empty()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("cannot join: more than one sample has the key '{}'; prepare the "
                              "dataset again",
                              printable(fmt::format("{}", fmt::join(keys, "', '")))),
                  {.path = source.dataset_path});
    }
    for (std::size_t i = 0; i < source.shards.size(); ++i) {
      positions_.emplace(source.tar_file_ids[i], static_cast<std::int64_t>(i));
    }
    read_excludes();
  }

  const JoinSource& source() const { return source_; }

  bool is_excluded(const SampleLocation& location, const std::string& key) const {
    if (excluded_shards_.contains(location.tar_file_id)) {
      return true;
    }
    const auto keys = excluded_keys_.find(location.tar_file_id);
    return keys != excluded_keys_.end() && keys->second.contains(key);
  }

  /// Nullopt if the sample does not exist, or is excluded.
  std::optional<JoinPlace> find(const std::string& key) const {
    const auto location = index_.find_sample(key);
    if (!location || is_excluded(*location, key)) {
      return std::nullopt;
    }
    const auto position = positions_.find(location->tar_file_id);
    if (position == positions_.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the sample is in the dataset, but in a shard ({}) that does not "
                              "belong to its split part '{}', so it cannot be joined",
                              shard_name(location->tar_file_id), printable(source_.split_part)),
                  {.path = source_.dataset_path, .sample_key = key});
    }
    return JoinPlace{.shard = position->second, .bytes = location->bytes};
  }

  /// Calls visit(key, place) for all samples that are not excluded, in the order of the split part.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (std::size_t i = 0; i < source_.shards.size(); ++i) {
      index_.for_each_sample_of(
          source_.tar_file_ids[i], [&](std::string_view view, const SampleLocation& location) {
            const std::string key(view);
            if (!is_excluded(location, key)) {
              visit(key, JoinPlace{.shard = static_cast<std::int64_t>(i), .bytes = location.bytes});
            }
            return true;
          });
    }
  }

 private:
  static SampleIndex open_index(const std::string& dataset_path) {
    const std::string path = dataset_path + "/.nv-meta/index.sqlite";
    if (!path_exists(path)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the dataset cannot be joined: .nv-meta/index.sqlite is missing; "
                              "run: energon prepare --force-overwrite {}",
                              printable(dataset_path)),
                  {.path = dataset_path});
    }
    return SampleIndex(path);
  }

  void read_excludes() {
    const auto info = read_dataset_info(source_.dataset_path + "/.nv-meta");
    if (!info) {
      throw Error(ErrorCode::kNotFound, ".nv-meta/.info.json is gone",
                  {.path = source_.dataset_path});
    }
    std::unordered_map<std::string, std::int64_t> ids;
    for (const ShardCount& shard : info->shards) {
      shard_names_.push_back(shard.name);
      ids.emplace(shard.name, static_cast<std::int64_t>(ids.size()));
    }
    for (const std::string& entry : source_.excludes) {
      if (const auto shard = ids.find(entry); shard != ids.end()) {
        excluded_shards_.insert(shard->second);
      } else if (const auto sample = split_exclude_entry(entry, ids)) {
        excluded_keys_[ids.at(sample->shard)].insert(sample->key);
      }
    }
  }

  std::string shard_name(std::int64_t tar_file_id) const {
    const auto i = static_cast<std::size_t>(tar_file_id);
    return i < shard_names_.size() ? printable(shard_names_[i])
                                   : fmt::format("number {}", tar_file_id);
  }

  const JoinSource& source_;
  const SampleIndex index_;
  std::vector<std::string> shard_names_;  // by tar_file_id
  std::unordered_map<std::int64_t, std::int64_t>
      positions_;  // tar_file_id to position in the split part
  std::set<std::int64_t> excluded_shards_;
  std::unordered_map<std::int64_t, std::set<std::string>> excluded_keys_;
};

class Joining {
 public:
  Joining(const JoinFiles& files, std::stop_token stop)
      : files_(files), stop_(std::move(stop)), unmatched_(files.sources.size()) {
    for (const JoinSource& source : files.sources) {
      sides_.push_back(std::make_unique<Side>(source));
    }
    report_.index_path = files.index_path;
    report_.missing.resize(sides_.size());
  }

  JoinReport run() {
    JoinIndexWriter writer(files_.index_path, sides_.size());
    sides_.front()->for_each([&](const std::string& key, const JoinPlace& place) {
      constexpr std::int64_t kSamplesBetweenChecks = 1024;
      if (report_.primary_samples++ % kSamplesBetweenChecks == 0) {
        check_not_stopped(stop_);
      }
      if (const auto row = match(key, place)) {
        writer.add(*row);
        ++report_.rows;
      }
    });
    fail_if_unmatched();
    writer.finish();
    return std::move(report_);
  }

 private:
  struct Unmatched {
    std::int64_t count = 0;
    std::vector<std::string> first_keys;
  };

  // Nullopt if the sample is skipped.
  std::optional<JoinRow> match(const std::string& key, const JoinPlace& place) {
    JoinRow row(sides_.size());
    row[0] = place;
    bool is_skipped = false;
    for (std::size_t c = 1; c < sides_.size(); ++c) {
      row[c] = sides_[c]->find(key);
      is_skipped = is_skipped || (!row[c] && sides_[c]->source().nonmatch == Nonmatch::kSkip);
    }
    if (is_skipped) {
      return std::nullopt;  // even if another dataset without a match requires one
    }
    for (std::size_t c = 1; c < sides_.size(); ++c) {
      if (row[c]) {
        continue;
      }
      ++report_.missing[c];
      if (sides_[c]->source().nonmatch == Nonmatch::kError) {
        ++unmatched_[c].count;
        if (unmatched_[c].first_keys.size() < kShownKeys) {
          unmatched_[c].first_keys.push_back(printable(key));
        }
      }
    }
    return row;
  }

  void fail_if_unmatched() const {
    for (std::size_t c = 1; c < sides_.size(); ++c) {
      if (unmatched_[c].count == 0) {
        continue;
      }
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("{} of the {} samples of {} have no match in this dataset: '{}'{}; "
                      "if this is intended, set nonmatch: skip or nonmatch: none for it",
                      unmatched_[c].count, report_.primary_samples,
                      printable(sides_.front()->source().dataset_path),
                      fmt::join(unmatched_[c].first_keys, "', '"),
                      unmatched_[c].count > static_cast<std::int64_t>(kShownKeys) ? " …" : ""),
          {.path = sides_[c]->source().dataset_path});
    }
  }

  const JoinFiles& files_;
  const std::stop_token stop_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::vector<Unmatched> unmatched_;
  JoinReport report_;
};

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw io_error("cannot create the folder of join indices", error.value(), {.path = path});
  }
}

bool is_join_index(std::string_view name) { return name.starts_with("join_index_"); }

// The names of all join indices, except unfinished ones.
std::vector<std::string> list_indices(const std::string& folder) {
  std::vector<std::string> indices;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_join_index(name) && target_of_temporary(name).empty()) {
      indices.push_back(name);
    }
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

// `before` was listed before the metadataset was read, so indices that another process creates
// meanwhile for a newer version stay. Leftovers of a killed prepare are also removed, but not
// reported.
std::vector<std::string> remove_unused(const std::string& folder,
                                       const std::vector<std::string>& before,
                                       const std::set<std::string>& used) {
  std::vector<std::string> removed;
  for (const std::string& name : before) {
    const std::string path = fmt::format("{}/{}", folder, name);
    std::error_code error;
    if (!used.contains(path) && fs::remove(path, error)) {
      removed.push_back(path);
    }
    if (error) {
      throw io_error("cannot remove unused join indices", error.value(), {.path = path});
    }
  }
  remove_abandoned(folder, is_join_index);
  return removed;
}

}  // namespace

JsonlReport prepare_jsonl(const std::string& path, const std::stop_token& stop) {
  const FileSource jsonl(path);
  const std::string index_path = jsonl_index_path(path);
  JsonlReport report;
  // An explicit prepare uses the file as it is now, but with a warning.
  if (auto proof = jsonl_proof_of_shrinking(index_path, jsonl.size())) {
    report.warnings.push_back(std::move(*proof));
  }
  report.samples = write_jsonl_index(jsonl, index_path, stop);
  return report;
}

JoinReport prepare_join(const LeafReference& join, const std::stop_token& stop) {
  JoinReport report;
  make_folder(join.path + ".cache");
  read_committed(dataset_paths(join), [&] {
    const JoinFiles files = locate_join(join);
    report = Joining(files, stop).run();
  });
  return report;
}

MetadatasetReport prepare_metadataset(const std::string& path, const std::stop_token& stop) {
  const std::vector<std::string> before = list_indices(path + ".cache");
  const Metadataset file = read_metadataset(path);
  MetadatasetReport report;
  std::set<std::string> used;
  UniqueFd lock;  // held while the indices are rebuilt
  const std::string folder = file.path + ".cache";
  if (path_exists(folder)) {
    lock = lock_folder(folder, "metadataset");
  }
  for (const MetadatasetSplit& split : file.splits) {
    for (const LeafReference& leaf : load_recipe(file.path, split.name).leaves) {
      if (leaf.kind != LeafReference::Kind::kJoin) {
        continue;
      }
      if (!lock.valid() && leaf.path == file.path) {
        make_folder(folder);
        lock = lock_folder(folder, "metadataset");
      }
      if (used.insert(locate_join(leaf).index_path).second) {
        report.joins.push_back(prepare_join(leaf, stop));
      }
    }
  }
  if (lock.valid()) {
    report.removed = remove_unused(folder, before, used);
  }
  return report;
}

}  // namespace energon
