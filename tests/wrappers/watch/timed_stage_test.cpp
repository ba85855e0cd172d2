#include "wrappers/watch/timed_stage.h"

#include <chrono>
#include <map>
#include <thread>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/conformance.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/scripted_dataset.h"
#include "wrappers/recipe/pipeline.h"

using energon::CountBytes;
using energon::Dataset;
using energon::PipelineClock;
using energon::Sample;
using energon::StageCounters;
using energon::TimedStage;
using energon::testing::ScriptedDataset;

namespace {

class CountingMonitor final : public energon::PipelineMonitor {
 public:
  StageCounters& stage(std::string_view name) override { return counters_[std::string(name)]; }
  void report(const energon::FailureReport&) override {}

 private:
  std::map<std::string, StageCounters> counters_;
};

void wait(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

constexpr std::uint64_t kMillisecond = 1'000'000;

}  // namespace

TEST_CASE("nested measured stages have exclusive times", "[wrappers][measured]") {
  CountingMonitor monitor;
  const auto clock = std::make_shared<PipelineClock>();
  std::unique_ptr<Dataset> stage = std::make_unique<ScriptedDataset>([&](std::int64_t) {
    CHECK(clock->running_stage() == "read");
    wait(3);
  });
  stage = std::make_unique<TimedStage>(std::move(stage), "read", clock, monitor, CountBytes::kYes);
  stage = std::make_unique<energon::Map>(
      std::move(stage),
      [&](Sample sample, energon::CallContext&) {
        CHECK(clock->running_stage() == "encode");
        wait(1);
        return sample;
      },
      energon::StageOptions{.name = "encode", .monitor = monitor});
  stage = std::make_unique<TimedStage>(std::move(stage), "encode", clock, monitor);
  stage =
      std::make_unique<energon::Batch>(std::move(stage), energon::BatchOptions{.batch_size = 4});
  stage = std::make_unique<TimedStage>(std::move(stage), "batch", clock, monitor);
  CHECK(clock->running_stage().empty());
  for (int i = 0; i < 3; ++i) {
    stage->next();
  }
  CHECK(clock->running_stage().empty());
  const StageCounters& read = monitor.stage("read");
  const StageCounters& encode = monitor.stage("encode");
  const StageCounters& batch = monitor.stage("batch");
  CHECK(read.busy_ns >= 36 * kMillisecond);
  CHECK(read.input_wait_ns == 0);
  CHECK(encode.busy_ns >= 12 * kMillisecond);
  // Nothing is counted twice or lost.
  CHECK(encode.input_wait_ns == read.busy_ns);
  CHECK(batch.input_wait_ns == encode.busy_ns + encode.input_wait_ns);
  CHECK(batch.samples == 12);
  CHECK(encode.samples == 12);
  CHECK(encode.bytes == 0);
  CHECK(read.bytes == 12 * (8 + 10));
}

TEST_CASE("a stage that throws stops its clock", "[wrappers][measured]") {
  CountingMonitor monitor;
  const auto clock = std::make_shared<PipelineClock>();
  TimedStage stage(std::make_unique<ScriptedDataset>([](std::int64_t item) {
                     if (item == 1) {
                       throw std::runtime_error("no");
                     }
                   }),
                   "read", clock, monitor);
  stage.next();
  CHECK_THROWS(stage.next());
  CHECK(clock->running_stage().empty());
  CHECK(monitor.stage("read").samples == 1);
}

TEST_CASE("measured pipelines conform, and exchange states with unmeasured ones",
          "[wrappers][measured][conformance]") {
  const energon::testing::TempDir folder;
  energon::HeapBufferPool memory;
  const auto make =
      energon::train_pipeline(energon::testing::numbered_dataset(folder, energon::testing::kTens),
                              {.batch_size = 2, .shuffle_buffer_size = 9, .repeat = false});
  CountingMonitor monitor;
  const auto measured = [&]() -> std::unique_ptr<Dataset> {
    return std::make_unique<TimedStage>(make({.memory = memory}), "all",
                                        std::make_shared<PipelineClock>(), monitor,
                                        CountBytes::kYes);
  };
  energon::testing::check_conformance<Dataset>(measured, 60);
  const auto plain = make({.memory = memory});
  plain->next();
  CHECK(measured()->config() == plain->config());
  const auto other = measured();
  other->restore_state(plain->save_state());
  CHECK(other->save_state() == plain->save_state());
}

TEST_CASE("each function of packing and of groups is measured separately", "[wrappers][measured]") {
  const energon::testing::TempDir folder;
  energon::HeapBufferPool memory;
  CountingMonitor monitor;
  energon::TaskEncoder encoder;
  encoder.select_samples_to_pack = [](std::span<const Sample> samples) {
    wait(5);
    std::vector<std::vector<std::size_t>> all(1);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      all[0].push_back(i);
    }
    return all;
  };
  encoder.postencode_sample = [](Sample sample, energon::CallContext&) {
    wait(2);
    return sample;
  };
  encoder.pack_selected_samples = [](std::span<Sample>, energon::CallContext&) {
    return energon::Mapping();
  };
  encoder.batch_group_criterion = [](const Sample&) {
    wait(3);
    return energon::BatchGroup{"all"};
  };
  encoder.batch = [](std::span<Sample>) { return energon::Mapping(); };
  const auto stream =
      energon::val_pipeline(energon::testing::numbered_dataset(folder, {20}),
                            {.task_encoder = encoder, .batch_size = 1, .packing_buffer_size = 5})(
          {.memory = memory, .monitor = monitor});
  int packs = 0;
  while (stream->next()) {
    ++packs;
  }
  REQUIRE(packs == 4);
  namespace names = energon::stage_names;
  CHECK(monitor.stage(names::kSelectSamplesToPack).busy_ns >= 4 * 5 * kMillisecond);
  CHECK(monitor.stage(names::kPostencodeSample).busy_ns >= 20 * 2 * kMillisecond);
  CHECK(monitor.stage(names::kPostencodeSample).samples == 20);
  CHECK(monitor.stage(names::kBatchGroupCriterion).busy_ns >= 4 * 3 * kMillisecond);
  // The code that only combines them takes less time than the functions.
  CHECK(monitor.stage(names::kPackSelectedSamples).busy_ns <
        monitor.stage(names::kPostencodeSample).busy_ns);
  CHECK(monitor.stage(names::kPackSelectedSamples).input_wait_ns >= 60 * kMillisecond);
}
