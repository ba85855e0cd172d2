#include "cli/job/order_log.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/show/json_lines.h"
#include "io/error.h"

namespace energon::cli {
namespace {

using Json = nlohmann::json;

/// One batch of a log.
struct LoggedBatch {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::optional<std::int64_t> worker;  ///< absent: delivered by the loader
  std::vector<std::string> keys;
};

// Nothing for lines about other things than batches.
std::optional<LoggedBatch> to_batch(const Json& line) {
  const std::string type = text_in(line, "t");
  const bool is_delivered = type.ends_with(".yield");
  if (!is_delivered && type != "yield_batch") {
    return std::nullopt;
  }
  return LoggedBatch{.step = number_in(line, "idx"),
                     .rank = number_in(line, "r"),
                     .worker = is_delivered ? std::nullopt : std::optional(number_in(line, "w")),
                     .keys = keys_in(line).get<std::vector<std::string>>()};
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
    const LastLine last = read_json_lines(file, "a debug log", [&](const Json& line) {
      if (auto batch = to_batch(line)) {
        batches.push_back(std::move(*batch));
      }
    });
    if (last == LastLine::kCut) {
      order.warnings.push_back(cut_line_warning(file));
    }
  }
  const auto is_delivered = [](const LoggedBatch& batch) { return !batch.worker; };
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
