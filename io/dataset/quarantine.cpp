#include "io/dataset/quarantine.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>
#include <system_error>
#include <unordered_map>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"

namespace energon {

namespace fs = std::filesystem;

// --- The file ---

namespace {

using Line = nlohmann::json;

// Parses a key of a JSONL file: a decimal number without leading zeros.
std::optional<std::int64_t> index_of_key(const std::string& key) {
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  return error == std::errc() && index >= 0 && key == std::to_string(index) ? std::optional(index)
                                                                            : std::nullopt;
}

std::string text_field(const std::string& name, const Line& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' must be a string", name));
  }
  return value.get<std::string>();
}

// Informational fields are also checked: otherwise a misspelled optional field would turn one
// sample into a whole shard.
void read_field(const std::string& name, const Line& value, QuarantineEntry& entry) {
  if (name == "dataset") {
    entry.dataset_path = text_field(name, value);
  } else if (name == "shard") {
    entry.shard_name = text_field(name, value);
  } else if (name == "key") {
    entry.key = text_field(name, value);
  } else if (name == "index") {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
      throw Error(ErrorCode::kInvalidArgument, "'index' must be an integer of at least 0");
    }
    entry.index = value.get<std::int64_t>();
  } else if (name == "bytes") {
    if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
        !value[1].is_number_unsigned()) {
      throw Error(ErrorCode::kInvalidArgument, "'bytes' must be [offset, size]");
    }
  } else if (name != "time" && name != "stage" && name != "cause") {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("unknown field '{}'", printable(name)));
  } else if (!value.is_string()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' must be a string", name));
  }
}

QuarantineEntry parse_line(std::string_view text) {
  const Line object = Line::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object()) {
    throw Error(ErrorCode::kInvalidArgument, "not a JSON object");
  }
  QuarantineEntry entry;
  for (const auto& [name, value] : object.items()) {
    read_field(name, value, entry);
  }
  if (entry.dataset_path.empty() || entry.shard_name.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "'dataset' and 'shard' are required");
  }
  return entry;
}

}  // namespace

Quarantine parse_quarantine(std::string_view text, const std::string& path) {
  Quarantine quarantine{.path = path};
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    try {
      quarantine.entries.push_back(parse_line(line));
      quarantine.entries.back().line = number;
    } catch (const Error& error) {
      if (!line.empty() && !line.ends_with('}')) {
        quarantine.warnings.push_back(
            fmt::format("{}: line {} is incomplete, as after a crash, and is ignored",
                        printable(path), number));
        continue;
      }
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("line {} of the quarantine file: {}", number, error.message()),
                  {.path = path});
    }
  }
  return quarantine;
}

Quarantine read_quarantine(const std::string& path) {
  constexpr std::uint64_t kLimitBytes = std::uint64_t{4} << 30;
  return parse_quarantine(read_file(path, kLimitBytes), path);
}

std::string to_line(const QuarantineEntry& entry, const QuarantineCause& cause) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  nlohmann::ordered_json line = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
                                 {"dataset", entry.dataset_path},
                                 {"shard", entry.shard_name}};
  if (entry.index) {
    line["index"] = *entry.index;
  }
  if (entry.key) {
    line["key"] = *entry.key;
  }
  if (cause.bytes.size > 0) {
    line["bytes"] = {cause.bytes.offset, cause.bytes.size};
  }
  line["stage"] = cause.stage;
  line["cause"] = cause.cause;
  // Names are bytes; JSON is UTF-8. A sample whose key is not UTF-8 is found by its index.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::uint64_t place_digest(const QuarantineEntry& entry) {
  Xxh3Stream stream;
  stream.update_field(as_bytes(entry.dataset_path));
  stream.update_field(as_bytes(entry.shard_name));
  if (entry.index) {
    stream.update_field(std::as_bytes(std::span(&*entry.index, 1)));
  } else if (entry.key) {
    stream.update_field(as_bytes(*entry.key));
  }
  return stream.digest();
}

bool DatasetFilter::matches(const QuarantineEntry& entry) {
  const auto [found, is_new] = known_.try_emplace(entry.dataset_path, false);
  if (is_new) {
    std::error_code ignored;
    found->second = entry.dataset_path == dataset_path_ ||
                    fs::equivalent(entry.dataset_path, dataset_path_, ignored);
  }
  return found->second;
}

QuarantinedLines find_quarantined_lines(const std::vector<std::string>& files,
                                        const std::string& path, std::int64_t sample_count) {
  QuarantinedLines result;
  DatasetFilter filter(path);
  for (const std::string& file : files) {
    Quarantine quarantine = read_quarantine(file);
    std::move(quarantine.warnings.begin(), quarantine.warnings.end(),
              std::back_inserter(result.warnings));
    for (const QuarantineEntry& entry : quarantine.entries) {
      // Also matches the name at the time of writing: links may lead to the file.
      const bool is_its_shard = entry.shard_name == fs::path(path).filename() ||
                                entry.shard_name == fs::path(entry.dataset_path).filename();
      if (!is_its_shard || !filter.matches(entry)) {
        continue;
      }
      if (entry.is_shard()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("the whole file is quarantined by line {} of {}", entry.line,
                                printable(file)),
                    {.path = path});
      }
      const auto index = entry.index ? entry.index : index_of_key(*entry.key);
      if (index && *index < sample_count) {
        result.indexes.push_back(*index);
      } else {
        result.warnings.push_back(fmt::format("quarantined sample {} of '{}' does not exist",
                                              entry.index
                                                  ? fmt::format("{}", *entry.index)
                                                  : fmt::format("'{}'", printable(*entry.key)),
                                              printable(path)));
      }
    }
  }
  std::sort(result.indexes.begin(), result.indexes.end());
  result.indexes.erase(std::unique(result.indexes.begin(), result.indexes.end()),
                       result.indexes.end());
  return result;
}

// --- The shards of a dataset ---

std::vector<std::string> QuarantinedSamples::entries() const {
  std::vector<std::string> result;
  result.reserve(keys.size());
  for (const auto& [shard, key] : keys) {
    result.push_back(fmt::format("{}/{}", shard, key));
  }
  return result;
}

QuarantinedSamples find_quarantined(const std::vector<std::string>& files, ShardSet& set) {
  QuarantinedSamples samples;
  if (files.empty()) {
    return samples;
  }
  std::set<std::string> known;
  for (const ShardFile& shard : set.shards) {
    known.insert(shard.name);
  }
  DatasetFilter filter(set.dataset_path);
  for (const std::string& file : files) {
    const Quarantine quarantine = read_quarantine(file);
    set.warnings.insert(set.warnings.end(), quarantine.warnings.begin(), quarantine.warnings.end());
    for (const QuarantineEntry& entry : quarantine.entries) {
      // Shards of other split parts need no warning.
      if (!filter.matches(entry) || !known.contains(entry.shard_name)) {
        continue;
      }
      if (entry.is_shard()) {
        samples.shards.insert(entry.shard_name);
      } else if (entry.index) {
        samples.places.emplace_back(entry.shard_name, *entry.index);
      } else {
        samples.keys.emplace_back(entry.shard_name, *entry.key);
      }
    }
  }
  const auto is_in_shard = [&](const auto& place) { return samples.shards.contains(place.first); };
  std::erase_if(samples.places, is_in_shard);
  std::erase_if(samples.keys, is_in_shard);
  if (!known.empty() && samples.shards.size() == known.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("all {} shards are quarantined", set.shards.size()),
                {.path = set.dataset_path});
  }
  return samples;
}

void drop_shards(const std::set<std::string>& names, ShardSet& set) {
  std::erase_if(set.shards, [&](const ShardFile& shard) { return names.contains(shard.name); });
}

void exclude_shards(const std::set<std::string>& names, ShardSet& set, ExcludeList list) {
  for (std::size_t shard = 0; shard < set.shards.size(); ++shard) {
    if (!names.contains(set.shards[shard].name)) {
      continue;
    }
    for (std::int64_t sample = 0; sample < set.shards[shard].sample_count; ++sample) {
      (set.*list).push_back({.shard = static_cast<std::int64_t>(shard), .sample = sample});
    }
  }
}

void exclude_by_index(const QuarantinedSamples& quarantined, ShardSet& set, ExcludeList list) {
  if (quarantined.places.empty()) {
    return;
  }
  // A shard may be listed several times.
  std::unordered_multimap<std::string, std::int64_t> numbers;
  for (std::size_t i = 0; i < set.shards.size(); ++i) {
    numbers.emplace(set.shards[i].name, static_cast<std::int64_t>(i));
  }
  for (const auto& [name, index] : quarantined.places) {
    const auto [first, last] = numbers.equal_range(name);
    for (auto number = first; number != last; ++number) {
      if (index < set.shards[static_cast<std::size_t>(number->second)].sample_count) {
        (set.*list).push_back({.shard = number->second, .sample = index});
      } else {
        set.warnings.push_back(fmt::format("quarantined sample {} of shard '{}' does not exist",
                                           index, printable(name)));
      }
    }
  }
}

}  // namespace energon
