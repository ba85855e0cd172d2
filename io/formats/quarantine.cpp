#include "io/formats/quarantine.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/file_source.h"

namespace energon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string text_field(const std::string& name, const Json& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' must be a text", name));
  }
  return value.get<std::string>();
}

// Fields that are only for people are looked at all the same: a typing error in an optional field
// would otherwise turn a sample into a whole shard.
void read_field(const std::string& name, const Json& value, QuarantineEntry& entry) {
  if (name == "dataset") {
    entry.dataset_path = text_field(name, value);
  } else if (name == "shard") {
    entry.shard_name = text_field(name, value);
  } else if (name == "key") {
    entry.key = text_field(name, value);
  } else if (name == "index") {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
      throw Error(ErrorCode::kInvalidArgument, "'index' must be a number not below 0");
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
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' must be a text", name));
  }
}

QuarantineEntry parse_line(std::string_view text) {
  const Json object = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object()) {
    throw Error(ErrorCode::kInvalidArgument, "it is no JSON object");
  }
  QuarantineEntry entry;
  for (const auto& [name, value] : object.items()) {
    read_field(name, value, entry);
  }
  if (entry.dataset_path.empty() || entry.shard_name.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "'dataset' and 'shard' must be given");
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
            fmt::format("{}: line {} is not complete, as after a crash; it is passed over",
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

bool is_of_dataset(const QuarantineEntry& entry, const std::string& dataset_path) {
  if (entry.dataset_path == dataset_path) {
    return true;
  }
  std::error_code ignored;
  return fs::equivalent(entry.dataset_path, dataset_path, ignored);
}

}  // namespace energon
