#include "energon/stage/failure.h"

#include <algorithm>

#include <fmt/format.h>

namespace energon {

std::vector<FailedSample> failed_samples(const Sample& sample) {
  std::vector<FailedSample> failed(std::max<std::size_t>(sample.keys.size(), 1));
  for (std::size_t i = 0; i < sample.keys.size(); ++i) {
    failed[i].key = sample.keys[i];
  }
  for (const SampleSource& source : sample.sources) {
    if (source.sample < failed.size() && !failed[source.sample].index_in_shard && source.shard) {
      FailedSample& entry = failed[source.sample];
      entry.dataset_path = source.shard->dataset_path;
      entry.shard_name = source.shard->shard_name;
      entry.index_in_shard = source.index_in_shard;
      entry.bytes = source.bytes;
    }
  }
  return failed;
}

std::string to_string(const FailureReport& report) {
  std::string text = fmt::format("stage '{}': {}", report.stage, printable(report.cause));
  if (report.samples.empty()) {
    return text;
  }
  const FailedSample& first = report.samples.front();
  text += fmt::format(" [shard: {}/{}", printable(first.dataset_path), printable(first.shard_name));
  if (report.is_shard_broken) {
    return text + ", all samples]";
  }
  text += fmt::format(", sample: {}", printable(first.key));
  if (first.bytes.size != 0) {
    text += fmt::format(", bytes: {} to {}", first.bytes.offset, first.bytes.end());
  }
  if (report.samples.size() > 1) {
    text += fmt::format(", and {} more", report.samples.size() - 1);
  }
  return text + "]";
}

const ErrorPolicy& ErrorPolicies::of(std::string_view stage) const {
  for (const auto& [name, policy] : stages) {
    if (name == stage) {
      return policy;
    }
  }
  return standard;
}

}  // namespace energon
