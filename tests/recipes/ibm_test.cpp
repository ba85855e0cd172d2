// Acceptance tests of IBM's rescalable loaders (IBM-01 …), by number, except those that change the
// layout after a restore.

#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/recipes/streams.h"
#include "tests/support/child_runner.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/sanitizer.h"
#include "tests/support/tar_builder.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::PipelineFactory;
using energon::Sample;
using energon::TaskEncoder;
using energon::testing::Keys;
using energon::testing::keys;
using energon::testing::numbered_key;
using energon::testing::run_in_child;
using energon::testing::Stream;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using namespace std::chrono_literals;

namespace {

// Samples of 5, 0, 5 and 5 units, in one shard or each in its own.
class Lengths : public TempDir {
 public:
  explicit Lengths(bool in_one_shard) {
    TarBuilder all;
    for (int i = 0; i < 4; ++i) {
      TarBuilder own;
      for (TarBuilder* tar : {&all, &own}) {
        tar->file(numbered_key(i) + ".txt", i == 1 ? "" : "units");
      }
      if (!in_one_shard) {
        write("shard-" + std::to_string(i) + ".tar", own.end().text());
      }
    }
    if (in_one_shard) {
      write("shard.tar", all.end().text());
    }
  }
};

TaskEncoder at_least(std::size_t min_length) {
  TaskEncoder encoder;
  encoder.encode_sample = [min_length](Sample sample, CallContext& /*context*/) {
    return sample.bytes("txt").size() < min_length ? throw energon::SkipSample()
                                                   : std::move(sample);
  };
  return encoder;
}

// Splits each sample into parts of up to two units; an empty sample has none.
TaskEncoder in_parts() {
  TaskEncoder encoder;
  encoder.encode_sample = [](Sample sample, CallContext& /*context*/) -> energon::SampleGenerator {
    return [sample = std::move(sample), begin = std::size_t{0}]() mutable -> std::optional<Sample> {
      const std::string_view units = sample.bytes("txt").text();
      if (begin >= units.size()) {
        return std::nullopt;
      }
      Sample part;
      part.fields = {{"units", std::string(units.substr(begin, 2))}};
      begin += 2;
      return part;
    };
  };
  return encoder;
}

Keys sorted(Keys keys) {
  std::sort(keys.begin(), keys.end());
  return keys;
}

// 0 if `make` delivers each of `expected` once per pass, in epochs over 1, 2 and 4 logical shards
// and endlessly; otherwise the code of the problem.
int wrong_passes(const PipelineFactory& finite, const PipelineFactory& endless, Keys expected) {
  for (std::int64_t seed = 0; seed < 20; ++seed) {
    for (const int shards : {1, 2, 4}) {
      Keys seen;
      for (int shard = 0; shard < shards; ++shard) {
        const energon::WorkerConfig config{.num_workers = shards, .seed_offset = seed};
        const Keys part = keys(Stream(finite, config, shard).take());
        seen.insert(seen.end(), part.begin(), part.end());
      }
      if (sorted(seen) != expected) {
        return 1;
      }
    }
    Stream stream(endless, {.seed_offset = seed});
    for (int pass = 0; pass < 10; ++pass) {
      if (sorted(keys(stream.take(expected.size()))) != expected) {
        return 2;
      }
    }
  }
  return 0;
}

// An endless search takes CPU time, so the 5 seconds of the statement are CPU time, independent of
// load.
void limit_cpu_time() {
  const rlim_t seconds = ENERGON_ADDRESS_SANITIZER ? 50 : 5;
  const rlimit limit{.rlim_cur = seconds, .rlim_max = seconds};
  ::setrlimit(RLIMIT_CPU, &limit);
}

Sample fail(Sample /*sample*/, CallContext& /*context*/) { throw std::runtime_error("never"); }

}  // namespace

TEST_CASE("IBM-14 empty samples and parts are skipped, and the others occur once per epoch",
          "[recipes][ibm][fork]") {
  const Lengths data(GENERATE(true, false));
  struct Case {
    TaskEncoder encoder;
    Keys expected;
  };
  const Keys all = {"000000", "000001", "000002", "000003"};
  const Keys full = {"000000", "000002", "000003"};
  const Keys three_parts = {full[0], full[0], full[0], full[1], full[1],
                            full[1], full[2], full[2], full[2]};
  int number = 0;
  for (const Case& with :
       {Case{at_least(0), all}, Case{at_least(4), full}, Case{in_parts(), three_parts}}) {
    INFO("case " << number++);
    const auto child = run_in_child(
        [&] {
          limit_cpu_time();
          return wrong_passes(
              energon::train_dataset(data.path(), {},
                                     {.task_encoder = with.encoder, .repeat = false}),
              energon::train_dataset(data.path(), {}, {.task_encoder = with.encoder}),
              with.expected);
        },
        60s);
    CHECK_FALSE(child.timed_out);
    CHECK(child.exit_code == 0);
  }
}

TEST_CASE("IBM-14 without usable samples there is an error, not an endless search",
          "[recipes][ibm][fork]") {
  const Lengths data(true);
  const auto fails = [&data](const energon::TrainOptions& options,
                             const energon::LoaderOptions& loader_options) {
    const auto child = run_in_child(
        [&] {
          limit_cpu_time();
          try {
            energon::SavableDataLoader loader(energon::train_dataset(data.path(), {}, options),
                                              loader_options);
            while (loader.next()) {
            }
          } catch (const energon::Error& error) {
            return error.message().find("none of its data can be used") == std::string::npos ? 2
                                                                                             : 0;
          }
          return 1;
        },
        60s);
    CHECK_FALSE(child.timed_out);
    CHECK(child.exit_code == 0);
  };
  const energon::LoaderOptions of_empty{.worker_config = {.rank = 1, .world_size = 4}};
  SECTION("one of four ranks, or of four workers, has the empty sample only") {
    for (const auto& encoder : {at_least(4), in_parts()}) {
      fails({.task_encoder = encoder}, of_empty);
      fails({.task_encoder = encoder, .batch_size = 2, .shuffle_buffer_size = 100}, of_empty);
      fails({.task_encoder = encoder}, {.worker_config = {.num_workers = 4}});
    }
  }
  SECTION("all fail, and any number of failures is tolerated") {
    fails({.task_encoder = {.encode_sample = fail},
           .errors = {.standard = {.action = energon::FailureAction::kSkip, .tolerance = 0}}},
          {});
  }
  SECTION("drawn with replacement, and over several epochs") {
    using Mode = energon::ShuffleOverEpochs::Mode;
    fails({.task_encoder = at_least(9), .shuffle_over_epochs = {.mode = Mode::kReplacement}}, {});
    fails({.task_encoder = at_least(9), .shuffle_over_epochs = {.epochs = 5}}, {});
  }
}

TEST_CASE("IBM-14 usable samples are found, however rare they are", "[recipes][ibm]") {
  // About one draw in two hundred is from the dataset with samples that are long enough.
  const Lengths data(true);
  auto blend = energon::open_data(data.path());
  blend.leaves.push_back(blend.leaves.front());
  blend.mixing = energon::Mixing::kWeighted;
  blend.leaves[0].weight = 200;
  blend.leaves[0].range = energon::SampleRange{1, 2};
  blend.leaves[1].range = energon::SampleRange{2, 3};
  Stream stream(energon::train_pipeline(blend, {.task_encoder = at_least(4)}));
  CHECK(keys(stream.take(10)) == Keys(10, "000002"));
}

TEST_CASE("IBM-21 a buffer restored into a larger one grows, and loses no samples",
          "[recipes][ibm]") {
  // Without a change of layout: three logical shards, each with four references in its buffer.
  const TempDir folder;
  energon::testing::write_numbered_shards(folder, {20, 10});
  const auto with_buffer = [&folder](std::int64_t size) {
    return energon::train_dataset(folder.path(), {},
                                  {.shuffle_buffer_size = size, .repeat = false});
  };
  for (const std::size_t taken : {0, 1, 5, 6, 9, 10}) {
    CAPTURE(taken);
    Keys seen;
    for (int shard = 0; shard < 3; ++shard) {
      CAPTURE(shard);
      const energon::WorkerConfig config{.num_workers = 3};
      Stream stream(with_buffer(4), config, shard);
      const Keys first = keys(stream.take(taken));
      Stream larger(with_buffer(7), config, shard);
      larger.dataset().restore_state(stream.dataset().save_state());
      const Keys rest = keys(larger.take());
      CHECK(first.size() + rest.size() == 10);
      seen.insert(seen.end(), first.begin(), first.end());
      seen.insert(seen.end(), rest.begin(), rest.end());
    }
    Keys expected;
    for (int i = 0; i < 30; ++i) {
      expected.push_back(numbered_key(i));
    }
    CHECK(sorted(seen) == expected);
  }
}
