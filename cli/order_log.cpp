#include "cli/order_log.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon::cli {
namespace {

using Json = nlohmann::json;

/// One batch of a log.
struct LoggedBatch {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::int64_t worker = -1;  ///< -1: delivered by the loader
  std::vector<std::string> keys;
};

/// What a line has in place of a debug log's.
struct WrongLine {
  std::string problem;
};

const Json& field(const Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) {
    throw WrongLine{fmt::format("it has no '{}'", name)};
  }
  return *found;
}

std::int64_t number(const Json& line, const char* name) {
  const Json& value = field(line, name);
  // Unsigned is what is not negative; above 64 bits with sign it would wrap around.
  if (!value.is_number_unsigned() || !std::in_range<std::int64_t>(value.get<std::uint64_t>())) {
    throw WrongLine{fmt::format("'{}' must be a whole number from 0 to {}, got {}", name,
                                std::numeric_limits<std::int64_t>::max(),
                                value.is_number() ? value.dump() : value.type_name())};
  }
  return value.get<std::int64_t>();
}

std::vector<std::string> keys(const Json& line) {
  const Json& list = field(line, "keys");
  const auto is_string = [](const Json& key) { return key.is_string(); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_string)) {
    throw WrongLine{"'keys' must be a list of strings"};
  }
  return list.get<std::vector<std::string>>();
}

// Nothing for lines about other things than batches.
std::optional<LoggedBatch> parse_line(const std::string& text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) {
    throw WrongLine{line.is_discarded() ? "it is not JSON" : "it is not a JSON object"};
  }
  const Json& type_field = field(line, "t");
  if (!type_field.is_string()) {
    throw WrongLine{"'t' must be a string"};
  }
  const auto type = type_field.get<std::string>();
  const bool is_delivered = type.ends_with(".yield");
  if (!is_delivered && type != "yield_batch") {
    return std::nullopt;
  }
  return LoggedBatch{.step = number(line, "idx"),
                     .rank = number(line, "r"),
                     .worker = is_delivered ? -1 : number(line, "w"),
                     .keys = keys(line)};
}

void read_log(const std::string& path, std::vector<LoggedBatch>& batches,
              std::vector<std::string>& warnings) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a folder is no log; name the logs in it, such as 'FOLDER/*.jsonl'",
                {.path = path});
  }
  std::ifstream file(path);
  if (!file) {
    throw Error(ErrorCode::kIo, "cannot read the log", {.path = path});
  }
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    try {
      if (auto batch = parse_line(text)) {
        batches.push_back(std::move(*batch));
      }
    } catch (const WrongLine& wrong) {
      if (file.eof()) {  // without an end of line
        warnings.push_back(fmt::format("{}: the last line is not complete", printable(path)));
        return;
      }
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("line {} is not of a debug log: {}", number, printable(wrong.problem)),
          {.path = path});
    }
  }
}

}  // namespace

std::vector<std::string> expand_patterns(const std::vector<std::string>& patterns,
                                         std::string_view noun) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& file) {
    if (std::find(files.begin(), files.end(), file) == files.end()) {
      files.push_back(file);
    }
  };
  for (const std::string& pattern : patterns) {
    std::error_code ignored;
    if (std::filesystem::exists(pattern, ignored)) {
      add(pattern);
      continue;
    }
    glob_t matches{};
    const int status = ::glob(pattern.c_str(), 0, nullptr, &matches);
    for (std::size_t i = 0; status == 0 && i < matches.gl_pathc; ++i) {
      add(matches.gl_pathv[i]);
    }
    ::globfree(&matches);
    if (status != 0) {
      throw Error(ErrorCode::kNotFound, fmt::format("there is no such {}", noun),
                  {.path = pattern});
    }
  }
  return files;
}

DeliveredOrder read_order(const std::vector<std::string>& files) {
  DeliveredOrder order;
  std::vector<LoggedBatch> batches;
  for (const std::string& file : files) {
    read_log(file, batches, order.warnings);
  }
  const auto is_delivered = [](const LoggedBatch& batch) { return batch.worker < 0; };
  if (std::any_of(batches.begin(), batches.end(), is_delivered)) {
    std::erase_if(batches, [&](const LoggedBatch& batch) { return !is_delivered(batch); });
  }
  // A log that several runs appended to has a step several times: later ones follow.
  std::stable_sort(batches.begin(), batches.end(), [](const LoggedBatch& a, const LoggedBatch& b) {
    return std::tuple(a.step, a.rank, a.worker) < std::tuple(b.step, b.rank, b.worker);
  });
  std::optional<std::int64_t> last;
  for (LoggedBatch& batch : batches) {
    if (last != batch.step) {
      last = batch.step;
      order.steps.emplace_back();
    }
    std::move(batch.keys.begin(), batch.keys.end(), std::back_inserter(order.steps.back()));
    ++order.batches;
  }
  return order;
}

}  // namespace energon::cli
