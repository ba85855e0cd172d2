// Times the stage inside and counts what it gives out.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/stage/pipeline_monitor.h"
#include "wrappers/watch/pipeline_clock.h"
#include "wrappers/watch/transparent.h"

namespace energon {

/// Whether payloads are counted: costs a look at every field. For the stage that reads.
enum class CountBytes : std::uint8_t { kNo, kYes };

/// Two readings of the clock a call; next_many() is one call.
class Measured final : public Transparent {
 public:
  /// Takes `inner`, whose own time is charged to the counters of `name`. `clock` is that of the
  /// pipeline; `monitor` must outlive the stage and the clock.
  Measured(std::unique_ptr<Dataset> inner, std::string_view name,
           std::shared_ptr<PipelineClock> clock, PipelineMonitor& monitor,
           CountBytes count_bytes = CountBytes::kNo);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;

  /// The result of `give()`, a sample or nothing: one that the stage inside gives in another way.
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
