#include "io/lint/lint_metadataset.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/dataset/dataset_kind.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"
#include "io/recipe/join_index.h"
#include "io/recipe/recipe.h"

namespace energon {
namespace {

// Split files of one dataset; nothing is the usual one.
using SplitConfigs = std::set<std::optional<std::string>>;

struct PartOfSplit {
  std::string path;  // of the dataset
  std::optional<std::string> split_config;
  std::string part;

  auto operator<=>(const PartOfSplit&) const = default;
};

// What says something about the machine or the caller, not about the data.
bool ends_lint(ErrorCode code) {
  return code == ErrorCode::kCancelled || code == ErrorCode::kResourceExhausted ||
         code == ErrorCode::kInternal;
}

class MetadatasetLinter {
 public:
  MetadatasetLinter(const std::string& path, const LintOptions& options)
      : path_(std::filesystem::absolute(path).lexically_normal().string()), options_(options) {}

  LintReport run() {
    report_.datasets = 0;
    for (const MetadatasetSplit& split : read_metadataset(path_).splits) {
      attempt(path_, fmt::format("split '{}', of which nothing was read: ", printable(split.name)),
              [&] { add_recipe(load_recipe(path_, split.name)); });
    }
    for (const std::string& path : datasets_) {
      attempt(path, "", [&] { lint_dataset(path); });
    }
    for (const PartOfSplit& part : parts_) {
      check_part(part);
    }
    for (const LeafReference& join : joins_) {
      attempt(path_, "join: ", [&] {
        if (checked_joins_.insert(locate_join(join).index_path).second) {
          read_committed(dataset_paths(join), [&] { check_join(join); });
        }
      });
    }
    return std::move(report_);
  }

 private:
  // What `body` throws becomes a problem of `dataset`.
  template <class Body>
  void attempt(const std::string& dataset, const std::string& prefix, const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (ends_lint(error.code())) {
        throw;
      }
      report_.problems.push_back({.dataset = dataset, .message = prefix + error.what()});
    }
  }

  void add_recipe(const Recipe& recipe) {
    for (const LeafReference& leaf : recipe.leaves) {
      if (leaf.kind == LeafReference::Kind::kJoin) {
        joins_.push_back(leaf);
      } else {
        add({leaf.path, leaf.split_config, leaf.split_part});
      }
      for (const JoinColumn& column : leaf.columns) {
        add({column.path, column.split_config, column.split_part});
      }
      for (const AuxReference& aux : leaf.aux) {
        // Of a folder, and of an index of media, nothing can be checked.
        if (aux.kind == AuxReference::Kind::kJsonl ||
            (aux.kind == AuxReference::Kind::kWebdataset &&
             detect_dataset_kind(aux.path) == DatasetKind::kPrepared)) {
          add(aux.path);
        }
      }
    }
  }

  void add(const PartOfSplit& part) {
    if (path_exists(part.path + "/.nv-meta")) {
      parts_.insert(part);
    }
    add(part.path).insert(part.split_config);
  }

  SplitConfigs& add(const std::string& path) {
    const auto [splits, is_new] = splits_.try_emplace(path);
    if (is_new) {
      datasets_.push_back(path);
    }
    return splits->second;
  }

  void lint_dataset(const std::string& path) {
    ++report_.datasets;
    LintOptions options = options_;
    const SplitConfigs& splits = splits_.at(path);
    options.split_configs.assign(splits.begin(), splits.end());
    if (options_.progress) {
      options.progress = [&](LintProgress progress) {
        progress.dataset = path;
        options_.progress(progress);
      };
    }
    LintReport found = lint(path, options);
    report_.shards += found.shards;
    report_.samples += found.samples;
    report_.samples_checksummed += found.samples_checksummed;
    for (LintProblem& problem : found.problems) {
      problem.dataset = path;
      report_.problems.push_back(std::move(problem));
    }
    for (const std::string& warning : found.warnings) {
      report_.warnings.push_back(fmt::format("{}: {}", printable(path), warning));
    }
  }

  // That the part exists and has shards; whether the split file can be read was looked at before.
  void check_part(const PartOfSplit& part) {
    const std::string meta = part.path + "/.nv-meta";
    SplitConfig config;
    try {
      config = read_split_config(meta, part.split_config);
    } catch (const Error&) {
      return;
    }
    attempt(part.path, "", [&] { select_shards(config, part.part, meta); });
  }

  // Each place of the index must be a sample of its shard.
  void check_join(const LeafReference& join) {
    const JoinFiles files = locate_join(join);
    const JoinIndex index = open_join_index(files, join);
    std::vector<JoinIndex::TarSizes> sizes;
    std::vector<std::vector<std::optional<TarIndex>>> tars;
    for (const JoinSource& source : files.sources) {
      JoinIndex::TarSizes& column_sizes = sizes.emplace_back();
      auto& column_tars = tars.emplace_back();
      for (std::size_t i = 0; i < source.shards.size(); ++i) {
        if (source.is_shard_excluded(i)) {
          column_sizes.emplace_back(std::nullopt);
          column_tars.emplace_back(std::nullopt);
          continue;
        }
        const std::string shard = source.dataset_path + "/" + source.shards[i];
        const FileSource tar(ensure_expanded(shard, options_.cache_dir));
        column_sizes.emplace_back(tar.size());
        column_tars.emplace_back(TarIndex::load(tar_index_path(shard), tar.size()));
      }
    }
    index.check(sizes);
    index.for_each_row([&](std::int64_t i, const JoinRow& row) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        if (row[c] &&
            !has_sample_at(*tars[c][static_cast<std::size_t>(row[c]->shard)], row[c]->bytes)) {
          throw Error(
              ErrorCode::kCorruptData,
              fmt::format(
                  "row {} leads to the bytes {} to {} of the shard '{}' of '{}', "
                  "where no sample lies; run energon prepare on the metadataset",
                  i, row[c]->bytes.offset, row[c]->bytes.end(),
                  printable(files.sources[c].shards[static_cast<std::size_t>(row[c]->shard)]),
                  printable(files.sources[c].dataset_path)),
              {.path = files.index_path});
        }
      }
    });
  }

  static bool has_sample_at(const TarIndex& tar, const ByteRange& bytes) {
    const auto begins = tar.entries();
    const auto begin = std::lower_bound(begins.begin(), begins.end() - 1, bytes.offset);
    return begin != begins.end() - 1 && *begin == bytes.offset &&
           tar.range(begin - begins.begin()).end() == bytes.end();
  }

  const std::string path_;
  const LintOptions& options_;
  LintReport report_;

  std::vector<std::string> datasets_;  // by path, in the order of the recipes
  std::map<std::string, SplitConfigs> splits_;
  std::set<PartOfSplit> parts_;  // that the recipes name
  std::vector<LeafReference> joins_;
  std::set<std::string> checked_joins_;  // by path of the index
};

}  // namespace

LintReport lint_metadataset(const std::string& path, const LintOptions& options) {
  return MetadatasetLinter(path, options).run();
}

}  // namespace energon
