#include "cli/commands/throughput_comparison.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "cli/output.h"
#include "energon/state/state_json.h"
#include "io/error.h"
#include "io/file.h"

namespace energon::cli {

// --- Reading results ---

namespace {

double seconds_in(const JsonReader& object, std::string_view name) {
  const JsonReader member = object.member(name);
  if (!member.json().is_number()) {
    member.fail("expected a number of seconds");
  }
  const auto seconds = member.json().get<double>();
  if (seconds < 0) {
    member.fail("expected a non-negative time");
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
    json.fail("expected samples and a time");
  }
  return repetition;
}

SavedThroughput read_result(const nlohmann::ordered_json& json) {
  check_depth(json, "result");
  const JsonReader reader(json, "result");
  const std::int64_t version = reader.member("bench_version").integer();
  if (version != kThroughputVersion) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the result has version {}, this program reads version {}", version,
                            kThroughputVersion));
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
      throw Error(ErrorCode::kCorruptData, "not JSON, so not a result of energon bench --json");
    }
    SavedThroughput result = read_result(json);
    result.path = path;
    return result;
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

// --- Comparing two ---

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string shown(const OrderedJson* value) {
  if (value == nullptr || value->is_null()) {
    return "not set";
  }
  return value->is_string() ? value->get<std::string>() : value->dump();
}

const OrderedJson* find(const OrderedJson& object, const std::string& name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// "NAME is X in A and Y in B" for each member that differs, except `except`.
std::vector<std::string> differences(const OrderedJson& a, const OrderedJson& b,
                                     const std::string& name_of_a, const std::string& name_of_b,
                                     const std::vector<std::string>& except) {
  std::vector<std::string> names;
  for (const OrderedJson* object : {&a, &b}) {
    for (const auto& [name, value] : object->items()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    const std::string of_a = shown(find(a, name));
    const std::string of_b = shown(find(b, name));
    if (of_a != of_b && std::find(except.begin(), except.end(), name) == except.end()) {
      texts.push_back(
          fmt::format("{} is {} in {} and {} in {}", name, of_a, name_of_a, of_b, name_of_b));
    }
  }
  return texts;
}

enum class Digits : std::uint8_t { kWhole, kOne, kThree };

std::string shown(double value, Digits digits) {
  switch (digits) {
    case Digits::kWhole:
      return with_separators(static_cast<std::int64_t>(value));
    case Digits::kOne:
      return fmt::format("{:.1f}", value);
    case Digits::kThree:
      return fmt::format("{:.3f}", value);
  }
  return {};
}

std::string shown(const Spread& spread, bool has_range, Digits digits) {
  const std::string median = shown(spread.median, digits);
  return has_range ? fmt::format("{} ({} to {})", median, shown(spread.min, digits),
                                 shown(spread.max, digits))
                   : median;
}

std::string line(const std::string& name, const std::string& a, const std::string& b,
                 const std::string& ratio, const std::string& ranges) {
  const std::string text = fmt::format("{:<17} {:<32} {:<32} {:<6} {}", name, a, b, ratio, ranges);
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string ratio_text(double b, double a) { return a > 0 ? fmt::format("{:.2f}", b / a) : "-"; }

bool have_ranges(const SavedThroughput& a, const SavedThroughput& b) {
  return a.repetitions.size() > 1 && b.repetitions.size() > 1;
}

std::string ranges_text(const Spread& a, const Spread& b, bool have_ranges) {
  return !have_ranges ? "unknown" : overlap(a, b) ? "overlap" : "apart";
}

template <class Figure>
std::string row(const std::string& name, const SavedThroughput& a, const SavedThroughput& b,
                const Figure& figure, Digits digits) {
  const Spread of_a = spread_of(a.repetitions, figure);
  const Spread of_b = spread_of(b.repetitions, figure);
  return line(name, shown(of_a, a.repetitions.size() > 1, digits),
              shown(of_b, b.repetitions.size() > 1, digits), ratio_text(of_b.median, of_a.median),
              ranges_text(of_a, of_b, have_ranges(a, b)));
}

std::string header(const char* name, const SavedThroughput& result) {
  const OrderedJson* const date = find(result.machine, "date");
  return fmt::format("{}: {} ({}, {}, {})\n", name, result.path, result.program, shown(date),
                     plural(static_cast<std::int64_t>(result.repetitions.size()), "repetition"));
}

std::string conclusion(const SavedThroughput& a, const SavedThroughput& b) {
  const Spread of_a = spread_of(a.repetitions, &Repetition::samples_per_second);
  const Spread of_b = spread_of(b.repetitions, &Repetition::samples_per_second);
  if (!have_ranges(a, b)) {
    return "No claim: one repetition has no spread.\n";
  }
  if (overlap(of_a, of_b)) {
    return "No claim: the ranges of the samples/s overlap. Longer repetitions may separate them.\n";
  }
  return fmt::format(
      "The ranges of the samples/s do not overlap: B reaches {:.2f} times those of A. A different "
      "load on the machine can cause this, too: repeat both in turn.\n",
      of_b.median / of_a.median);
}

}  // namespace

std::vector<std::string> different_settings(const SavedThroughput& first,
                                            const SavedThroughput& second) {
  return differences(first.settings, second.settings, first.path, second.path, {});
}

std::string comparison_text(const SavedThroughput& first, const SavedThroughput& second) {
  std::string text = header("A", first) + header("B", second);
  for (const std::string& difference : differences(first.settings, second.settings, "A", "B", {})) {
    text += difference + "\n";
  }
  for (const std::string& difference :
       differences(first.machine, second.machine, "A", "B", {"date", "load_1min_at_start"})) {
    text += "different machine: " + difference + "\n";
  }
  text += line("", "A: median (range)", "B: median (range)", "B / A", "ranges");
  text += row("samples/s", first, second, &Repetition::samples_per_second, Digits::kWhole);
  text += row("MB/s", first, second, &Repetition::megabytes_per_second, Digits::kOne);
  const auto p50 = [](const Repetition& r) { return r.latency_p50_seconds * 1e3; };
  const auto p99 = [](const Repetition& r) { return r.latency_p99_seconds * 1e3; };
  text += row("latency p50, ms", first, second, p50, Digits::kThree);
  text += row("latency p99, ms", first, second, p99, Digits::kThree);
  text += line("first batch, ms", shown(first.first_batch_seconds * 1e3, Digits::kThree),
               shown(second.first_batch_seconds * 1e3, Digits::kThree),
               ratio_text(second.first_batch_seconds, first.first_batch_seconds), "unknown");
  return text + conclusion(first, second);
}

}  // namespace energon::cli
