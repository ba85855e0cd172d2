// Choosing shards: those of each part of a split, and those of one part to read.

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/dataset/brace_collapse.h"
#include "io/dataset/brace_expansion.h"
#include "io/dataset/split_config.h"
#include "io/error.h"

namespace energon {
namespace {

[[noreturn]] void fail_choice(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, problem);
}

const SplitConfig::Part& part_named(const SplitConfig& config, const std::string& name) {
  if (config.parts.empty()) {
    fail_choice(
        fmt::format("the split file has no split parts, so it has no '{}'", printable(name)));
  }
  const auto found = std::find_if(config.parts.begin(), config.parts.end(),
                                  [&](const SplitConfig::Part& part) { return part.name == name; });
  if (found == config.parts.end()) {
    std::vector<std::string> known;
    for (const SplitConfig::Part& part : config.parts) {
      known.push_back(printable(part.name));
    }
    fail_choice(
        fmt::format("unknown split part '{}'; known: {}", printable(name), fmt::join(known, ", ")));
  }
  return *found;
}

// The expressions of `pattern`, one for each of its brace expansions.
std::vector<std::regex> regexes_of(const SplitPattern& pattern) {
  std::vector<std::regex> regexes;
  for (const std::string& text :
       expand_braces(pattern.regex, {.escapes = Escapes::kKeep, .max_results = 100'000})) {
    try {
      regexes.emplace_back(text);
    } catch (const std::regex_error& error) {
      fail_choice(fmt::format("split pattern '{}' of part '{}' is not a regular expression: {}",
                              printable(text), printable(pattern.part), error.what()));
    }
  }
  return regexes;
}

}  // namespace

SplitConfig split_by_ratio(std::span<const std::string> shards,
                           std::span<const SplitRatio> ratios) {
  double total = 0;
  std::optional<std::size_t> last_weighted;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (!(ratios[i].weight >= 0) || !std::isfinite(ratios[i].weight)) {
      fail_choice(
          fmt::format("the ratio of split part '{}' is {}, but must be a number not below 0",
                      printable(ratios[i].part), ratios[i].weight));
    }
    total += ratios[i].weight;
    last_weighted = ratios[i].weight > 0 ? std::optional(i) : last_weighted;
  }
  if (!last_weighted) {
    fail_choice("no split part has a ratio above 0");
  }
  SplitConfig config;
  double cumulative = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    cumulative += ratios[i].weight / total;
    const auto cut = static_cast<std::size_t>(static_cast<double>(shards.size()) * cumulative);
    const std::size_t end = i >= *last_weighted ? shards.size() : std::min(cut, shards.size());
    config.parts.push_back({ratios[i].part, collapse_names(shards.subspan(begin, end - begin))});
    begin = end;
  }
  return config;
}

SplitConfig split_by_pattern(std::span<const std::string> shards,
                             std::span<const SplitPattern> patterns) {
  SplitConfig config;
  for (const SplitPattern& pattern : patterns) {
    const std::vector<std::regex> regexes = regexes_of(pattern);
    std::vector<std::string> names;
    for (const std::string& shard : shards) {
      const bool matches =
          std::any_of(regexes.begin(), regexes.end(), [&](const std::regex& regex) {
            return std::regex_search(shard, regex, std::regex_constants::match_continuous);
          });
      if (matches) {
        names.push_back(shard);
      }
    }
    if (names.empty()) {
      fail_choice(fmt::format(
          "split pattern '{}' of part '{}' matches none of the {} shards; it is a regular "
          "expression matched from the start of the name, not a glob (write '.*' where "
          "a glob has '*'){}",
          printable(pattern.regex), printable(pattern.part), shards.size(),
          shards.empty() ? ""
                         : fmt::format("; the first shard is '{}'", printable(shards.front()))));
    }
    config.parts.push_back({pattern.part, collapse_names(names)});
  }
  return config;
}

SelectedShards select_shards(const SplitConfig& config, const std::string& part,
                             const std::string& path) {
  try {
    const SplitConfig::Part& chosen = part_named(config, part);
    SelectedShards result;
    std::unordered_set<std::string> excluded;
    for (const std::string& pattern : config.exclude) {
      for (std::string& entry : expand_braces(pattern)) {
        excluded.insert(entry);
        result.exclude_entries.push_back(std::move(entry));
      }
    }
    std::unordered_set<std::string> dropped;
    for (const std::string& pattern : chosen.patterns) {
      for (std::string& name : expand_braces(pattern)) {
        if (excluded.contains(name)) {
          dropped.insert(std::move(name));
        } else {
          result.names.push_back(std::move(name));
        }
      }
    }
    std::erase_if(result.exclude_entries,
                  [&](const std::string& entry) { return dropped.contains(entry); });
    if (result.names.empty()) {
      fail_choice(fmt::format("split part '{}' has no shards{}", printable(part),
                              dropped.empty() ? "" : " that are not excluded"));
    }
    return result;
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

}  // namespace energon
