#include "io/recipe/join_source.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/brace_pattern.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/excluded_samples.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index.h"

namespace energon {
namespace {

[[noreturn]] void fail_unprepared(const std::string& path, std::string_view file) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the dataset cannot be joined: .nv-meta/{} is missing; run: energon "
                          "prepare --force-overwrite {}",
                          file, printable(path)),
              {.path = path});
}

std::string read_uuid(const std::string& path) {
  constexpr std::uint64_t kLimitBytes = 1024;
  const std::string uuid_path = path + "/.nv-meta/index.uuid";
  if (!path_exists(uuid_path)) {
    fail_unprepared(path, "index.uuid");
  }
  return read_file(uuid_path, kLimitBytes);
}

std::vector<std::string> expand_all(const std::vector<std::string>& patterns) {
  std::vector<std::string> result;
  for (const std::string& pattern : patterns) {
    for (std::string& name : expand_braces(pattern)) {
      result.push_back(std::move(name));
    }
  }
  return result;
}

JoinSource read_source(const JoinColumn& column) {
  const std::string meta = column.path + "/.nv-meta";
  const auto info = read_dataset_info(meta);
  if (!info) {
    fail_unprepared(column.path, ".info.json");
  }
  std::unordered_map<std::string, std::int64_t> ids;
  for (const ShardCount& shard : info->shards) {
    ids.emplace(shard.name, static_cast<std::int64_t>(ids.size()));
  }
  const SplitConfig config = read_split_config(meta, column.split_config);
  select_shards(config, column.split_part, meta);  // complains about unknown and empty parts

  JoinSource source{.dataset_path = column.path,
                    .split_part = column.split_part,
                    .nonmatch = column.nonmatch,
                    .uuid = read_uuid(column.path)};
  const auto part = std::find_if(config.parts.begin(), config.parts.end(), [&](const auto& entry) {
    return entry.name == column.split_part;
  });
  source.shards = expand_all(part->patterns);
  std::set<std::string> seen;
  for (const std::string& name : source.shards) {
    const auto id = ids.find(name);
    if (id == ids.end() || !seen.insert(name).second) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the split part '{}' names the shard '{}'{}",
                              printable(column.split_part), printable(name),
                              id == ids.end() ? ", which .info.json does not list"
                                              : " twice; such a part cannot be joined"),
                  {.path = meta});
    }
    source.tar_file_ids.push_back(id->second);
    source.sample_counts.push_back(info->shards[static_cast<std::size_t>(id->second)].sample_count);
  }
  source.excludes = expand_all(config.exclude);
  std::sort(source.excludes.begin(), source.excludes.end());
  source.excludes.erase(std::unique(source.excludes.begin(), source.excludes.end()),
                        source.excludes.end());
  return source;
}

}  // namespace

bool JoinSource::is_shard_excluded(std::size_t position) const {
  return std::binary_search(excludes.begin(), excludes.end(), shards[position]);
}

std::vector<std::string> dataset_paths(const LeafReference& join) {
  std::vector<std::string> paths;
  for (const JoinColumn& column : join.columns) {
    paths.push_back(column.path);
  }
  return paths;
}

JoinFiles locate_join(const LeafReference& join) {
  JoinFiles files;
  std::vector<JoinNameField> fields;
  for (const JoinColumn& column : join.columns) {
    JoinSource& source = files.sources.emplace_back();
    read_committed(column.path, [&] { source = read_source(column); });
    JoinNameField field{.uuid = source.uuid, .excludes = {}, .nonmatch = source.nonmatch};
    std::copy_if(source.excludes.begin(), source.excludes.end(), std::back_inserter(field.excludes),
                 [](const std::string& entry) { return entry.find('/') != std::string::npos; });
    if (join.is_split_in_index_name) {
      field.split = fmt::format("{}/{}", column.split_config.value_or(""), column.split_part);
    }
    fields.push_back(std::move(field));
  }
  files.index_path = fmt::format("{}.cache/{}", join.path, join_index_name(fields));
  return files;
}

std::optional<std::int64_t> expected_rows(const JoinFiles& files) {
  const auto skips = [](const JoinSource& source) { return source.nonmatch == Nonmatch::kSkip; };
  if (std::any_of(files.sources.begin() + 1, files.sources.end(), skips)) {
    return std::nullopt;
  }
  const JoinSource& first = files.sources.front();
  std::int64_t rows = 0;
  std::unordered_map<std::string, std::int64_t> ids;  // of shards that are not excluded
  for (std::size_t i = 0; i < first.shards.size(); ++i) {
    if (!first.is_shard_excluded(i)) {
      rows += first.sample_counts[i];
      ids.emplace(first.shards[i], first.tar_file_ids[i]);
    }
  }
  std::optional<SampleIndex> index;
  for (const std::string& entry : first.excludes) {
    const auto sample = split_exclude_entry(entry, ids);
    if (!sample) {
      continue;
    }
    if (!index) {
      const std::string path = first.dataset_path + "/.nv-meta/index.sqlite";
      if (!path_exists(path)) {
        return std::nullopt;
      }
      index.emplace(path);
    }
    const auto location = index->find_sample(sample->key);
    rows -= location && location->tar_file_id == ids.at(sample->shard) ? 1 : 0;
  }
  return rows;
}

JoinIndex open_join_index(const JoinFiles& files, const LeafReference& join) {
  if (!path_exists(files.index_path)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the join is not prepared, or the metadataset or one of its datasets "
                            "was changed since; run: energon prepare {}",
                            printable(join.path)),
                {.path = files.index_path});
  }
  JoinIndex index(files.index_path, files.sources.size());
  if (const auto rows = expected_rows(files); rows && *rows != index.row_count()) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the join index has {} rows, but the split part '{}' of the first "
                            "dataset has {} samples that are not excluded, each of which has one: "
                            "the index was cut, or the split file was changed; run: energon "
                            "prepare {}",
                            index.row_count(), printable(files.sources.front().split_part), *rows,
                            printable(join.path)),
                {.path = files.index_path});
  }
  return index;
}

}  // namespace energon
