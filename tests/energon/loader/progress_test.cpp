// The progress of a worker: a loader waits for a slow worker as long as it makes progress.

#include <chrono>
#include <filesystem>
#include <thread>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/support/error_of.h"
#include "tests/support/scripted_dataset.h"
#include "wrappers/watch/timed_stage.h"

namespace {

using energon::CallContext;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::PipelineContext;
using energon::Sample;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::testing::LoaderFixture;
using energon::testing::tail;
using energon::testing::take;
using energon::testing::TempDir;
using std::chrono::milliseconds;

constexpr milliseconds kTimeout{2000};
// Longer than the timeout in total, but each far shorter.
constexpr int kSteps = 12;
constexpr milliseconds kStep{250};

const LoaderOptions kOptions{.prefetch_factor = 1, .timeout = kTimeout};

void be_slow() { std::this_thread::sleep_for(kStep); }

// A user's dataset, which makes the items that it skips and calls no function that the loader
// knows.
class SlowToSkip final : public energon::PassThrough {
 public:
  explicit SlowToSkip(std::unique_ptr<energon::Dataset> inner) : PassThrough(std::move(inner)) {}
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
};

}  // namespace

TEST_CASE("a batch may take longer than the timeout if its samples do not",
          "[loader][progress][fork]") {
  const LoaderFixture fixture(
      {.task_encoder = {.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
                          be_slow();
                          return sample;
                        })},
       .batch_size = kSteps});
  const auto loader = fixture.loader(1, kOptions);
  CHECK(loader->next()->keys.size() == kSteps);
}

TEST_CASE("a replay may take longer than the timeout if its calls do not",
          "[loader][progress][fork]") {
  const TempDir folder;
  const auto slow_if_told = [&folder] {
    if (std::filesystem::exists(folder.file("slow"))) {
      be_slow();
    }
  };
  const LoaderFixture of_functions(
      {.task_encoder = {.encode_sample =
                            energon::MapFunction([&slow_if_told](Sample sample, CallContext&) {
                              slow_if_told();
                              return sample;
                            }),
                        .batch_group_criterion =
                            [](const Sample&) { return energon::BatchGroup{.group = "all"}; }},
       .batch_size = 2});
  const energon::PipelineFactory of_the_user = [&slow_if_told](const PipelineContext&) {
    return std::make_unique<SlowToSkip>(std::make_unique<energon::testing::ScriptedDataset>(
        [&slow_if_told](std::int64_t) { slow_if_told(); }));
  };
  for (const energon::PipelineFactory& pipeline : {of_functions.pipeline(), of_the_user}) {
    LoaderOptions options = kOptions;
    options.worker_config.num_workers = 1;
    options.checkpoint_every_batches = 1'000'000'000;
    const auto expected = take(*std::make_unique<SavableDataLoader>(pipeline, options), kSteps + 2);
    SavableDataLoader first(pipeline, options);
    take(first, kSteps);
    const SavableDataLoaderState state = first.save_state_rank();
    first.stop();
    REQUIRE(state.checkpoints.at(0).offset == kSteps);
    folder.write("slow", "");
    SavableDataLoader second(pipeline, options);
    second.restore_state_rank(state);
    CHECK(take(second, 2) == tail(expected, kSteps, 2));
    second.stop();
    std::filesystem::remove(folder.file("slow"));
  }
}

TEST_CASE("a call may take longer than the timeout if it reads files meanwhile",
          "[loader][progress][fork]") {
  const TempDir folder;
  const std::string path = folder.write("slow", std::string(kSteps, 'x'));
  const LoaderFixture fixture(
      {.task_encoder = {.encode_sample = energon::MapFunction([&path](Sample sample, CallContext&) {
                          const energon::FileSource file(path);
                          std::byte byte{};
                          for (int i = 0; i < kSteps; ++i) {
                            be_slow();
                            file.read_at(static_cast<std::uint64_t>(i), {&byte, 1});
                          }
                          return sample;
                        })}});
  const auto loader = fixture.loader(1, kOptions);
  CHECK(loader->next());
}

TEST_CASE("a hanging call is an error after the timeout, however much was done before",
          "[loader][progress][fork]") {
  const LoaderFixture fixture(
      {.task_encoder = {.encode_sample =
                            energon::MapFunction([](Sample sample, CallContext& context) {
                              if (context.call() == kSteps - 1) {
                                std::this_thread::sleep_for(std::chrono::hours(1));
                              }
                              be_slow();
                              return sample;
                            })},
       .batch_size = kSteps});
  const auto loader = fixture.loader(1, kOptions);
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THAT(energon::testing::error_of([&] { loader->next(); }, ErrorCode::kTimeout),
             Catch::Contains("no progress for 2000 ms") && Catch::Contains("encode_sample"));
  CHECK(std::chrono::steady_clock::now() - begin > kSteps * kStep);
}
