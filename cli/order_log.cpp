#include "cli/order_log.h"

#include <glob.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
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

// Nothing for lines about other things than batches.
std::optional<LoggedBatch> parse_line(const Json& line) {
  const std::string type = line.at("t").get<std::string>();
  const bool is_delivered = type.ends_with(".yield");
  if (!is_delivered && type != "yield_batch") {
    return std::nullopt;
  }
  return LoggedBatch{.step = line.at("idx").get<std::int64_t>(),
                     .rank = line.at("r").get<std::int64_t>(),
                     .worker = is_delivered ? -1 : line.at("w").get<std::int64_t>(),
                     .keys = line.at("keys").get<std::vector<std::string>>()};
}

void read_log(const std::string& path, std::vector<LoggedBatch>& batches,
              std::vector<std::string>& warnings) {
  std::ifstream file(path);
  if (!file) {
    throw Error(ErrorCode::kIo, "cannot read the log", {.path = path});
  }
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    try {
      if (auto batch = parse_line(Json::parse(text))) {
        batches.push_back(std::move(*batch));
      }
    } catch (const Json::exception& error) {
      if (file.eof()) {  // without an end of line
        warnings.push_back(fmt::format("{}: the last line is not complete", printable(path)));
        return;
      }
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("line {} is not of a debug log: {}", number, printable(error.what())),
                  {.path = path});
    }
  }
}

}  // namespace

std::vector<std::string> expand_patterns(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    glob_t matches{};
    const int status = ::glob(pattern.c_str(), 0, nullptr, &matches);
    for (std::size_t i = 0; status == 0 && i < matches.gl_pathc; ++i) {
      const std::string file = matches.gl_pathv[i];
      if (std::find(files.begin(), files.end(), file) == files.end()) {
        files.push_back(file);
      }
    }
    ::globfree(&matches);
    if (status != 0) {
      throw Error(ErrorCode::kNotFound, "there is no such log", {.path = pattern});
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
