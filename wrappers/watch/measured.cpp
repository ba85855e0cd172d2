#include "wrappers/watch/measured.h"

#include <algorithm>
#include <utility>

#include "io/concurrency.h"

namespace energon {

Measured::Measured(std::unique_ptr<Dataset> inner, std::string_view name,
                   std::shared_ptr<PipelineClock> clock, PipelineMonitor& monitor,
                   CountBytes count_bytes)
    : Transparent(std::move(inner)),
      clock_(std::move(clock)),
      stage_(clock_->add_stage(name, monitor.stage(name))),
      count_bytes_(count_bytes) {}

std::optional<Sample> Measured::next() {
  const PipelineClock::Section section(*clock_, stage_);
  std::optional<Sample> sample = inner().next();
  if (sample) {
    count(*sample);
  }
  return sample;
}

void Measured::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t before = samples.size();
  const PipelineClock::Section section(*clock_, stage_);
  inner().next_many(count, samples);
  for (std::size_t i = before; i < samples.size(); ++i) {
    this->count(samples[i]);
  }
}

void Measured::count(const Sample& sample) {
  StageCounters& counters = stage_.counters();
  add_relaxed(counters.samples, std::max<std::size_t>(sample.keys.size(), 1));
  if (count_bytes_ == CountBytes::kYes) {
    add_relaxed(counters.bytes, payload_bytes(sample));
  }
}

}  // namespace energon
