// Times the inner stage and counts its output.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/stage/dataset.h"
#include "wrappers/watch/pipeline_clock.h"
#include "wrappers/watch/transparent.h"

namespace energon {

/// Whether to count payload bytes, which visits every field. For the stage that reads.
enum class CountBytes : std::uint8_t { kNo, kYes };

/// Costs two clock readings per call; next_many() is one call.
class Measured final : public Transparent {
 public:
  /// Takes ownership of `inner` and charges its own time to the counters of `name`. `clock` is the
  /// clock of the pipeline; `monitor` must outlive the stage and the clock.
  Measured(std::unique_ptr<Dataset> inner, std::string_view name,
           std::shared_ptr<PipelineClock> clock, PipelineMonitor& monitor,
           CountBytes count_bytes = CountBytes::kNo);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;

  /// Runs `give()` and returns its result, a sample or nothing; for samples that the inner stage
  /// provides by another function than next().
  template <class Give>
  std::optional<Sample> measure(Give&& give) {
    const PipelineClock::Section section(*clock_, stage_);
    std::optional<Sample> sample = std::forward<Give>(give)();
    if (sample) {
      count(*sample);
    }
    return sample;
  }

 private:
  void count(const Sample& sample);

  const std::shared_ptr<PipelineClock> clock_;
  const PipelineClock::Stage& stage_;
  const CountBytes count_bytes_;
};

}  // namespace energon
