// A worker that dies or hangs in a function of the user is reported with the stage and the sample.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/worker/statistics_block.h"
#include "io/error.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "wrappers/stages/iter_map.h"
#include "wrappers/stages/map.h"

namespace {

using energon::CallContext;
using energon::Error;
using energon::ErrorCode;
using energon::LoaderOptions;
using energon::Mapping;
using energon::PipelineContext;
using energon::PipelineFactory;
using energon::Sample;
using energon::TrainOptions;
using energon::testing::LoaderFixture;

constexpr const char* kKey = "000030";  // the last sample of shard-005.tar, with index 9

void crash_at(const Sample& sample) {
  if (std::find(sample.keys.begin(), sample.keys.end(), kKey) != sample.keys.end()) {
    ::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
  }
}

void crash_at(std::span<const Sample> samples) {
  for (const Sample& sample : samples) {
    crash_at(sample);
  }
}

Sample crash_map(Sample sample, CallContext&) {
  crash_at(sample);
  return sample;
}

energon::SampleGenerator crash_flat_map(Sample sample, CallContext&) {
  return [sample = std::move(sample), given = 0]() mutable -> std::optional<Sample> {
    if (given == 1) {
      crash_at(sample);  // not in the first output
    }
    return given++ < 2 ? std::optional(sample) : std::nullopt;
  };
}

Mapping crash_batch(std::span<Sample> samples) {
  crash_at(samples);
  return {};
}

std::vector<std::vector<std::size_t>> singles(std::span<const Sample> samples) {
  std::vector<std::vector<std::size_t>> packs;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    packs.push_back({i});
  }
  return packs;
}

TrainOptions packing() {
  TrainOptions options;
  options.packing_buffer_size = 3;
  options.task_encoder.select_samples_to_pack = singles;
  options.task_encoder.pack_selected_samples = [](std::span<Sample>, CallContext&) {
    return Mapping();
  };
  return options;
}

Error error_of(energon::SavableDataLoader& loader) {
  try {
    for (int i = 0; i < 1000; ++i) {
      loader.next();
    }
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "no error");
}

Error error_of(const PipelineFactory& pipeline, const LoaderOptions& options = {}) {
  LoaderOptions with_worker = options;
  with_worker.worker_config.num_workers = 1;
  energon::SavableDataLoader loader(pipeline, with_worker);
  return error_of(loader);
}

void check_names(const Error& error, const std::string& stage) {
  CHECK(error.code() == ErrorCode::kWorkerDied);
  CHECK_THAT(error.what(), Catch::Contains("SIGSEGV") && Catch::Contains("making batch") &&
                               Catch::Contains("in stage '" + stage + "' on "));
  REQUIRE(error.context().path);
  REQUIRE(error.context().sample_key);
}

void check_names_sample(const Error& error, const std::string& stage) {
  check_names(error, stage);
  CHECK_THAT(error.what(), Catch::Contains("sample '000030', number 9 of shard-005.tar"));
  CHECK_THAT(*error.context().path, Catch::EndsWith("/shard-005.tar"));
  CHECK(error.context().sample_key == kKey);
}

// It is unknown which of several samples caused the crash.
void check_names_samples(const Error& error, const std::string& stage) {
  check_names(error, stage);
  CHECK_THAT(error.what(), Catch::Contains("'000030'") && Catch::Contains(" samples: '"));
}

}  // namespace

TEST_CASE("a crash in a function of one sample names stage, dataset, shard and key",
          "[loader][crash][fork]") {
  const auto check = [](const TrainOptions& options, const std::string& stage) {
    INFO(stage);
    check_names_sample(error_of(LoaderFixture(options).pipeline()), stage);
  };
  check({.task_encoder = {.cookers = {{.cook =
                                           [](Sample sample, energon::CookContext&) {
                                             crash_at(sample);
                                             return sample;
                                           }}}}},
        "cook");
  check({.task_encoder = {.encode_sample = energon::MapFunction(crash_map)}}, "encode_sample");
  check({.task_encoder = {.encode_sample = energon::FlatMapFunction(crash_flat_map)}},
        "encode_sample");
  TrainOptions postencode = packing();
  postencode.task_encoder.postencode_sample = crash_map;
  check(postencode, "postencode_sample");
  check({.task_encoder = {.batch_group_criterion =
                              [](const Sample& sample) {
                                crash_at(sample);
                                return energon::BatchGroup{.group = "one"};
                              }},
         .batch_size = 2},
        "batch_group_criterion");
}

TEST_CASE("a crash in a function of several samples names them and the place of the first",
          "[loader][crash][fork]") {
  const auto check = [](const TrainOptions& options, const std::string& stage) {
    INFO(stage);
    check_names_samples(error_of(LoaderFixture(options).pipeline()), stage);
  };
  check({.task_encoder = {.batch = crash_batch}, .batch_size = 4}, "batch");
  check({.task_encoder = {.batch_group_criterion =
                              [](const Sample&) { return energon::BatchGroup{.group = "one"}; },
                          .batch = crash_batch},
         .batch_size = 3},
        "batch");
  check({.task_encoder = {.encode_batch = energon::MapFunction(crash_map)}, .batch_size = 4},
        "encode_batch");
  TrainOptions select = packing();
  select.task_encoder.select_samples_to_pack = [](std::span<const Sample> samples) {
    crash_at(samples);
    return singles(samples);
  };
  check(select, "select_samples_to_pack");
  TrainOptions pack = packing();
  pack.task_encoder.select_samples_to_pack = [](std::span<const Sample> samples) {
    std::vector<std::vector<std::size_t>> all(1);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      all.front().push_back(i);
    }
    return all;
  };
  pack.task_encoder.pack_selected_samples = [](std::span<Sample> samples, CallContext&) {
    crash_at(samples);
    return Mapping();
  };
  check(pack, "pack_selected_samples");
}

TEST_CASE("a crash in a filter names the sample, in an iter map all samples taken",
          "[loader][crash][fork]") {
  const LoaderFixture fixture(
      {.task_encoder = {.encode_sample = [](Sample sample, CallContext&) { return sample; }}});
  const auto options_of = [](const PipelineContext& context, const char* name) {
    return energon::StageOptions{.name = name, .monitor = context.monitor};
  };
  check_names_sample(
      error_of([&](const PipelineContext& context) -> std::unique_ptr<energon::Dataset> {
        return std::make_unique<energon::Filter>(
            fixture.pipeline()(context),
            [](const Sample& sample, CallContext&) {
              crash_at(sample);
              return true;
            },
            options_of(context, "keep"));
      }),
      "keep");
  // Earlier stages have written their own notes since it was called.
  check_names_samples(
      error_of([&](const PipelineContext& context) -> std::unique_ptr<energon::Dataset> {
        return std::make_unique<energon::IterMap>(
            fixture.pipeline()(context),
            energon::IterMapOptions{
                .function =
                    [](energon::Pull pull, CallContext&) {
                      return [pull = std::move(pull), given = 0, before = Sample()]() mutable {
                        std::optional<Sample> sample = given++ < 5 ? pull() : std::nullopt;
                        if (sample) {
                          crash_at(before);
                          before = *sample;
                        }
                        return sample;
                      };
                    },
                .stage = options_of(context, "merge")});
      }),
      "merge");
}

TEST_CASE("a hang in a function names the sample, a death between functions names none",
          "[loader][crash][fork]") {
  const auto hang = [](Sample sample, CallContext&) {
    while (sample.keys.front() == kKey) {
      ::pause();
    }
    return sample;
  };
  const LoaderFixture fixture({.task_encoder = {.encode_sample = energon::MapFunction(hang)}});
  const Error error = error_of(fixture.pipeline(), {.timeout = std::chrono::seconds(2)});
  CHECK(error.code() == ErrorCode::kTimeout);
  CHECK_THAT(error.what(),
             Catch::Contains("made no progress") &&
                 Catch::Contains("in stage 'encode_sample' on sample '000030', number 9"));
  CHECK(error.context().sample_key == kKey);

  const LoaderFixture idle(
      {.task_encoder = {.encode_sample = energon::MapFunction(
                            [](Sample sample, CallContext&) { return sample; })}});
  const auto loader = idle.loader(1);
  loader->next();
  // Its ring is full and the next batch is made, so it waits for space, outside of functions.
  REQUIRE(energon::testing::eventually(
      [&] { return loader->stats().workers.front().queue_depth >= 2; }));
  energon::wait_any({}, energon::deadline_after(std::chrono::milliseconds(300)));
  ::kill(loader->worker_pids().front(), SIGKILL);
  const Error death = error_of(*loader);
  CHECK_THAT(death.what(), Catch::Contains("SIGKILL") && !Catch::Contains("in stage"));
  CHECK_FALSE(death.context().sample_key);
}

TEST_CASE("a note of work is read completely or not at all", "[loader][crash][threads]") {
  energon::CurrentWorkBlock note;
  energon::CurrentWorkWriter writer(note);
  CHECK_FALSE(energon::read_note(note));
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < 8; ++i) {
    Sample sample;
    const std::string key(static_cast<std::size_t>(1 + 30 * i), static_cast<char>('a' + i));
    sample.keys = {key};
    sample.sources.push_back(
        {.shard = std::make_shared<const energon::SourceShard>(
             energon::SourceShard{.dataset_path = "/data/" + key, .shard_name = "of " + key}),
         .index_in_shard = i});
    samples.push_back(std::move(sample));
  }
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> wrong{0};
  std::thread reader([&] {
    while (!done) {
      if (const auto work = energon::read_note(note)) {
        const auto i = static_cast<std::size_t>(*work->index_in_shard);
        const bool is_whole = i < samples.size() && work->stage == i && work->samples == 1 &&
                              work->keys == samples[i].keys &&
                              work->dataset == samples[i].sources[0].shard->dataset_path &&
                              work->shard == samples[i].sources[0].shard->shard_name;
        wrong += is_whole ? 0 : 1;
      }
    }
  });
  for (std::size_t round = 0; round < 20'000; ++round) {
    writer.begin(round % 8, {&samples[round % 8], 1});
    if (round % 3 == 0) {
      writer.end();
    }
  }
  done = true;
  reader.join();
  CHECK(wrong == 0);
  writer.end();
  CHECK_FALSE(energon::read_note(note));

  // Long texts are truncated, and only the first of many keys are kept.
  Sample large = samples[1];
  large.keys = std::vector<std::string>(100, std::string(70, 'k'));
  large.sources[0].shard = std::make_shared<const energon::SourceShard>(energon::SourceShard{
      .dataset_path = std::string(2000, 'd'), .shard_name = std::string(2000, 's')});
  writer.begin(3, {&large, 1});
  const auto work = energon::read_note(note);
  REQUIRE(work);
  CHECK(work->samples == 100);
  CHECK(work->keys.size() == 4);
  CHECK(work->keys.front() == large.keys.front());
  CHECK(work->dataset == std::string(512, 'd'));
  CHECK(work->shard == std::string(248, 's'));
}
