#include "bench/support/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "bench/support/machine.h"
#include "io/bytes.h"
#include "io/file.h"

namespace energon::bench {

Report::Report(std::string name, std::string question)
    : name_(std::move(name)), question_(std::move(question)), machine_(describe_machine()) {}

void Report::add(Result result) { results_.push_back(std::move(result)); }
void Report::add(Target target) { targets_.push_back(std::move(target)); }

std::string humanize(double value) {
  struct Prefix {
    double factor;
    const char* name;
  };
  constexpr std::array<Prefix, 7> kPrefixes{
      {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, " "}, {1e-3, " m"}, {1e-6, " µ"}, {1e-9, " n"}}};
  const auto prefix =
      std::find_if(kPrefixes.begin(), kPrefixes.end() - 1,
                   [value](const Prefix& p) { return std::abs(value) >= p.factor * 0.9995; });
  if (value == 0) {
    return "0 ";
  }
  const double scaled = value / prefix->factor;
  const int digits = std::abs(scaled) < 9.995 ? 2 : std::abs(scaled) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", scaled, digits, prefix->name);
}

std::string Report::text() const {
  std::string text = fmt::format("{}\n{}\n", name_, question_);
  for (const auto& [key, value] : machine_.items()) {
    text +=
        fmt::format("  {}: {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  for (const auto& [key, value] : settings_.items()) {
    text += fmt::format("  {}: {}\n", key, value.dump());
  }
  if (const std::string warning = build_warning(); !warning.empty()) {
    text += fmt::format("WARNING: {}\n", warning);
  }
  text += fmt::format("\n{:<52} {:>14} {:>12} {:>12}\n", "", "median", "min", "max");
  for (const Result& result : results_) {
    const Measurement& m = result.measurement;
    text += fmt::format("{:<52} {:>14} {:>12} {:>12}", result.name,
                        humanize(m.median()) + result.unit, humanize(m.min()), humanize(m.max()));
    for (const auto& [key, value] : result.more.items()) {
      text += fmt::format("  {} {}", key, value.is_number() ? humanize(value) : value.dump());
    }
    text += '\n';
  }
  for (const Target& target : targets_) {
    text += fmt::format("{}: {}{} (target: {} {}{}): {}\n", target.name, humanize(target.value),
                        target.unit,
                        target.direction == Target::Direction::kAtLeast ? "at least" : "at most",
                        humanize(target.target), target.unit, target.met() ? "met" : "MISSED");
  }
  return text;
}

void Report::write_json(const std::string& path) const {
  nlohmann::ordered_json json = {
      {"name", name_}, {"question", question_}, {"machine", machine_}, {"settings", settings_}};
  json["results"] = nlohmann::ordered_json::array();
  for (const Result& result : results_) {
    nlohmann::ordered_json entry = {{"name", result.name},
                                    {"unit", result.unit},
                                    {"median", result.measurement.median()},
                                    {"min", result.measurement.min()},
                                    {"max", result.measurement.max()},
                                    {"repetitions", result.measurement.values.size()}};
    entry.update(result.more);
    json["results"].push_back(std::move(entry));
  }
  json["targets"] = nlohmann::ordered_json::array();
  for (const Target& target : targets_) {
    json["targets"].push_back(
        {{"name", target.name},
         {"unit", target.unit},
         {"value", target.value},
         {"target", target.target},
         {"at", target.direction == Target::Direction::kAtLeast ? "least" : "most"},
         {"met", target.met()}});
  }
  write_file_atomically(path, as_bytes(json.dump(2) + "\n"));
}

}  // namespace energon::bench
