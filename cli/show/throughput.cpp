#include "cli/show/throughput.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/show/output.h"
#include "cli/show/statistics_table.h"

namespace energon::cli {
namespace {

constexpr double kMega = 1e6;

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

}  // namespace

double quantile(std::vector<double>& values, double quantile) {
  if (values.empty()) {
    return 0;
  }
  const auto rank = static_cast<std::size_t>(quantile * static_cast<double>(values.size()));
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(std::min(rank, values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

std::string to_text(Throughput result) {
  std::string text = fmt::format(
      "{} batches, {} samples, {} in {:.2f} s\n"
      "throughput:    {} samples/s, {:.1f} MB/s\n"
      "first batch:   {:.1f} ms\n"
      "batch latency: p50 {:.3f} ms, p99 {:.3f} ms\n",
      with_separators(result.batches), with_separators(result.samples),
      human_bytes(result.payload_bytes), result.seconds,
      with_separators(static_cast<std::int64_t>(
          per_second(static_cast<double>(result.samples), result.seconds))),
      per_second(static_cast<double>(result.payload_bytes) / kMega, result.seconds),
      result.first_batch_seconds * 1e3, quantile(result.latency_seconds, 0.5) * 1e3,
      quantile(result.latency_seconds, 0.99) * 1e3);
  for (const ProcessFigures& process : result.processes) {
    text += fmt::format("{:<14} {:.2f} s CPU, {} (PSS)\n", process.name + ":", process.cpu_seconds,
                        process.pss_bytes ? human_bytes(*process.pss_bytes) : "memory unknown");
  }
  return text + to_text(result.loader);
}

nlohmann::ordered_json to_json(Throughput result) {
  nlohmann::ordered_json json = {
      {"batches", result.batches},
      {"samples", result.samples},
      {"payload_bytes", result.payload_bytes},
      {"seconds", result.seconds},
      {"samples_per_second", per_second(static_cast<double>(result.samples), result.seconds)},
      {"megabytes_per_second",
       per_second(static_cast<double>(result.payload_bytes) / kMega, result.seconds)},
      {"first_batch_seconds", result.first_batch_seconds},
      {"latency_p50_seconds", quantile(result.latency_seconds, 0.5)},
      {"latency_p99_seconds", quantile(result.latency_seconds, 0.99)},
      {"processes", nlohmann::ordered_json::array()}};
  for (const ProcessFigures& process : result.processes) {
    nlohmann::ordered_json entry = {{"name", process.name},
                                    {"pid", process.pid},
                                    {"cpu_seconds", process.cpu_seconds},
                                    {"pss_bytes", nullptr}};
    if (process.pss_bytes) {
      entry["pss_bytes"] = *process.pss_bytes;
    }
    json["processes"].push_back(std::move(entry));
  }
  json["loader"] = energon::to_json(result.loader);
  return json;
}

}  // namespace energon::cli
