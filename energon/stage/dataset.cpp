#include "energon/stage/dataset.h"

#include <utility>

#include "io/error.h"

namespace energon {
namespace {

class Unobserved final : public PipelineMonitor {
 public:
  StageCounters& stage(std::string_view /*name*/) override { return counters_; }
  void report(const FailureReport& /*report*/) override {}

 private:
  StageCounters counters_;
};

}  // namespace

void Dataset::next_many(std::int64_t count, std::vector<Sample>& samples) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::optional<Sample> sample = next();
    if (!sample) {
      return;
    }
    samples.push_back(std::move(*sample));
  }
}

std::int64_t Dataset::skip_batches(std::int64_t /*count*/, std::int64_t /*batch_size*/) {
  throw Error(ErrorCode::kUnsupported,
              "cannot change the micro batch size: the last stage of the pipeline does not make "
              "batches of a fixed number of samples");
}

namespace {

thread_local int replays = 0;

}  // namespace

Replay::Replay() { ++replays; }
Replay::~Replay() { --replays; }
bool Replay::is_running() { return replays > 0; }

std::int64_t Dataset::skip_by_running(std::int64_t count) {
  std::int64_t skipped = 0;
  while (skipped < count && next()) {
    ++skipped;
  }
  return skipped;
}

PipelineMonitor& no_monitor() {
  static Unobserved monitor;
  return monitor;
}

}  // namespace energon
