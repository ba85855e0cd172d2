#include "cli/job/delivered_job.h"

#include <charconv>
#include <cstddef>
#include <iterator>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "cli/show/json_lines.h"
#include "cli/show/output.h"
#include "io/error.h"

namespace energon::cli {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostShards = std::numeric_limits<std::int32_t>::max();

std::vector<std::int64_t> numbers_in(const Json& line, const char* name) {
  const Json& list = field(line, name);
  if (!list.is_array()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' must be a list of numbers, got {}", name, list.type_name()));
  }
  std::vector<std::int64_t> numbers;
  for (const Json& value : list) {
    numbers.push_back(to_number(value, name));
  }
  return numbers;
}

std::uint64_t digest_in(const Json& line, const char* name) {
  const std::string text = text_in(line, name);
  const char* const end = text.data() + text.size();
  std::uint64_t digest = 0;
  if (text.size() != 16 || std::from_chars(text.data(), end, digest, 16).ptr != end) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' must be 16 hexadecimal digits, got '{}'", name, printable(text)));
  }
  return digest;
}

}  // namespace

void DeliveredJob::read(const std::string& path) {
  const LastLine last = read_json_lines(path, "a dump with --certificate and --logical-shards",
                                        [this](const Json& line) { add(line); });
  if (last == LastLine::kCut) {
    print_warning(cut_line_warning(path));
  }
}

void DeliveredJob::add(const Json& line) {
  const std::int64_t shards = number_in(line, "logical_shards");
  if (shards == 0 || shards > kMostShards) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is no job of {} logical shards", shards));
  }
  if (logical_shards_.value_or(shards) != shards) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("it is of a job of {} logical shards, the lines before of one of {}",
                            shards, logical_shards()));
  }
  logical_shards_ = shards;
  if (line.contains("end_of_epoch")) {
    add_end_of_epoch(line);
    return;
  }
  const std::int64_t epoch = number_in(line, "epoch");
  const std::int64_t number = number_in(line, "micro_batch");
  const Certificate certificate{.digest = digest_in(line, "batch_certificate"),
                                .samples = std::ssize(keys_in(line))};
  const auto [place, is_new] = epoch_of(epoch).micro_batches.try_emplace(number, certificate);
  if (!is_new && place->second != certificate) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("micro batch {} of epoch {} was there before, with other samples: these "
                    "are not dumps of one job",
                    number, epoch));
  }
}

DeliveredEpoch& DeliveredJob::epoch_of(std::int64_t epoch) {
  return epochs_
      .try_emplace(epoch, DeliveredEpoch{.epoch = epoch, .logical_shards = logical_shards()})
      .first->second;
}

void DeliveredJob::add_end_of_epoch(const Json& line) {
  const std::int64_t epoch = number_in(line, "end_of_epoch");
  const std::vector<std::int64_t> shards = numbers_in(line, "of_logical_shards");
  const std::vector<std::int64_t> counts = numbers_in(line, "micro_batches");
  if (shards.size() != counts.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there are {} numbers in 'micro_batches' for {} logical shards",
                            counts.size(), shards.size()));
  }
  DeliveredEpoch& delivered = epoch_of(epoch);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i] >= logical_shards() || counts[i] > kLargestNumber / logical_shards()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("there is no logical shard {} of {} with {} micro batches", shards[i],
                              logical_shards(), counts[i]));
    }
    const std::int64_t before = delivered.ended.try_emplace(shards[i], counts[i]).first->second;
    if (before != counts[i]) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("epoch {} of logical shard {} ended after {} micro batches before, "
                              "now after {}: these are not dumps of one job",
                              epoch, shards[i], before, counts[i]));
    }
  }
}

}  // namespace energon::cli
