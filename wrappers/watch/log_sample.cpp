#include "wrappers/watch/log_sample.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace energon {

LogSample::LogSample(std::unique_ptr<Dataset> inner, std::string path, const WorkerConfig& config,
                     int worker)
    : PassThrough(std::move(inner)), path_(std::move(path)), config_(config), worker_(worker) {}

std::optional<Sample> LogSample::next() {
  std::optional<Sample> sample = inner().next();
  if (sample) {
    log(*sample);
  }
  return sample;
}

void LogSample::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t before = samples.size();
  inner().next_many(count, samples);
  for (std::size_t i = before; i < samples.size(); ++i) {
    log(samples[i]);
  }
}

std::int64_t LogSample::skip(std::int64_t count) {
  const std::int64_t skipped = inner().skip(count);
  index_ += skipped;
  return skipped;
}

void LogSample::apply_state(const State& state) {
  PassThrough::apply_state(state);
  index_ = 0;
}

void LogSample::log(const Sample& sample) {
  if (!log_) {
    log_.emplace(path_, config_, worker_);
  }
  log_->write({{"t", "yield_batch"},
               {"r", config_.rank},
               {"w", worker_},
               {"idx", index_++},
               {"keys", sample.keys.strings()},
               {"restore_key", sample.restore_key.text()}});
}

}  // namespace energon
