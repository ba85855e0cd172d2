#include "cli/show/saved_throughput.h"

#include <string_view>

#include <fmt/format.h>

#include "energon/state/state_json.h"
#include "io/error.h"
#include "io/file.h"

namespace energon::cli {
namespace {

double seconds_in(const JsonReader& object, std::string_view name) {
  const JsonReader member = object.member(name);
  if (!member.json().is_number()) {
    member.fail("expected a number of seconds");
  }
  const auto seconds = member.json().get<double>();
  if (seconds < 0) {
    member.fail("a time is not negative");
  }
  return seconds;
}

nlohmann::ordered_json object_in(const JsonReader& json, std::string_view name) {
  const JsonReader member = json.member(name);
  if (!member.json().is_object()) {
    member.fail("expected an object");
  }
  return member.json();
}

Repetition read_repetition(const JsonReader& json) {
  Repetition repetition{
      .batches = json.member("batches").count(),
      .samples = json.member("samples").count(),
      .payload_bytes = static_cast<std::uint64_t>(json.member("payload_bytes").count()),
      .seconds = seconds_in(json, "seconds"),
      .latency_p50_seconds = seconds_in(json, "latency_p50_seconds"),
      .latency_p99_seconds = seconds_in(json, "latency_p99_seconds")};
  if (repetition.samples == 0 || repetition.seconds == 0) {
    json.fail("a repetition without samples or without time has no rate");
  }
  return repetition;
}

SavedThroughput read_result(const nlohmann::ordered_json& json) {
  check_depth(json, "result");
  const JsonReader reader(json, "result");
  const std::int64_t version = reader.member("bench_version").integer();
  if (version != kThroughputVersion) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("a result of version {}, this program knows {}", version, kThroughputVersion));
  }
  SavedThroughput result{.path = {},
                         .program = reader.member("program").text(),
                         .settings = object_in(reader, "settings"),
                         .machine = object_in(reader, "machine"),
                         .repetitions = {},
                         .first_batch_seconds = seconds_in(reader, "first_batch_seconds")};
  for (const JsonReader& repetition : reader.member("repetitions").elements()) {
    result.repetitions.push_back(read_repetition(repetition));
  }
  if (result.repetitions.empty()) {
    reader.member("repetitions").fail("expected at least one repetition");
  }
  return result;
}

}  // namespace

SavedThroughput read_throughput(const std::string& path) {
  const std::string text = read_file(path);
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  try {
    if (json.is_discarded()) {
      throw Error(ErrorCode::kCorruptData, "not JSON, so no result of energon bench --json");
    }
    SavedThroughput result = read_result(json);
    result.path = path;
    return result;
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

}  // namespace energon::cli
