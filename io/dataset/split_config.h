// `.nv-meta/split.yaml` (or split.json): which shards belong to which part of a dataset, and what
// is excluded.
//
//   split_parts:
//     train:
//     - shard-{000..089}.tar
//     val:
//     - shard-{090..099}.tar
//   exclude: []
//
// The lists hold brace patterns of shard names (io/dataset/brace_pattern.h). An entry of
// `exclude` is a shard's name, or `shard/key` for one sample. Reading is strict: an unknown key is
// an error.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace energon {

struct SplitConfig {
  struct Part {
    std::string name;
    std::vector<std::string> patterns;

    bool operator==(const Part&) const = default;
  };

  std::vector<Part> parts = {};  ///< as in the file
  std::vector<std::string> exclude = {};

  bool operator==(const SplitConfig&) const = default;
};

// --- Reading and writing ---

/// Errors name `path`. Throws Error (kInvalidArgument) with the place in the document.
SplitConfig parse_split_yaml(const std::string& text, const std::string& path);
SplitConfig parse_split_json(const std::string& text, const std::string& path);

/// Fast path without a YAML parser for text that to_split_yaml() wrote; nullopt for any other text
/// and, for instance, if a name is quoted.
std::optional<SplitConfig> parse_as_written(const std::string& text);

/// Reads the file `name` in `meta_folder`; the name must end in .yaml or .json. Without a name,
/// reads split.yaml, else split.json. Throws Error: kNotFound, kInvalidArgument.
SplitConfig read_split_config(const std::string& meta_folder,
                              const std::optional<std::string>& name = std::nullopt);

/// Serializes `config` as Energon does with PyYAML.
std::string to_split_yaml(const SplitConfig& config);

// --- Assigning shards to parts ---

struct SplitRatio {
  std::string part;
  double weight = 0;  ///< not negative; only the proportion counts
};

/// Cuts `shards`, in their order, by number of shards: part p ends at
/// int(shards · cumulative weight / total). The last part with a weight takes the rest, so no shard
/// is lost to rounding. Names are collapsed. Throws Error (kInvalidArgument) on bad weights.
SplitConfig split_by_ratio(std::span<const std::string> shards, std::span<const SplitRatio> ratios);

struct SplitPattern {
  std::string part;
  /// A regular expression (ECMAScript), not a glob. Brace patterns are expanded first; the result
  /// is matched from the start of a shard's name. Backslashes are passed on to the expression.
  std::string regex;
};

/// A shard belongs to every part that matches it. Names are collapsed. Throws Error
/// (kInvalidArgument) if an expression is malformed or matches no shard.
SplitConfig split_by_pattern(std::span<const std::string> shards,
                             std::span<const SplitPattern> patterns);

// --- Selecting the shards of a part ---

struct SelectedShards {
  std::vector<std::string> names;            ///< in the part's order
  std::vector<std::string> exclude_entries;  ///< expanded, without entries of excluded shards
};

/// The shards of `part` without those excluded as a whole. Throws Error (kInvalidArgument): unknown
/// part (the message lists the known ones), no shard left.
SelectedShards select_shards(const SplitConfig& config, const std::string& part,
                             const std::string& path);

}  // namespace energon
