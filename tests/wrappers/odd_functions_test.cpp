// Functions of the user that do odd things with a sample: each ends in an Error that names it, or
// in a batch, never in a crash.

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "tests/support/call_function.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/error_of.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/batching/batch_functions.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/stages/iter_map.h"
#include "wrappers/stages/map.h"

using energon::BatchFunction;
using energon::CallContext;
using energon::Dataset;
using energon::ErrorCode;
using energon::Mapping;
using energon::Sample;
using energon::TaskEncoder;
using energon::testing::call_function;
using energon::testing::error_of;
using energon::testing::kTens;
using energon::testing::numbered_dataset;
using energon::testing::RecordingMonitor;
using energon::testing::TempDir;

namespace {

Sample with_field_twice(Sample sample, CallContext& /*context*/) {
  if (sample.keys.at(0) == "000003") {
    sample.fields.emplace_back("txt", std::string("once more"));
  }
  return sample;
}

/// The 55 numbered samples through one task encoder.
class OddPipeline {
 public:
  explicit OddPipeline(TaskEncoder encoder, energon::ErrorPolicies errors = {},
                       std::optional<std::int64_t> packing_buffer_size = std::nullopt)
      : pipeline_(energon::val_pipeline(
            dataset_,
            {.task_encoder = std::move(encoder),
             .batch_size = packing_buffer_size ? std::nullopt : std::optional<std::int64_t>(10),
             .packing_buffer_size = packing_buffer_size,
             .errors = errors})({.memory = memory_, .monitor = monitor_})) {}

  Dataset& stream() { return *pipeline_; }
  RecordingMonitor& monitor() { return monitor_; }

 private:
  TempDir folder_;
  std::shared_ptr<const energon::Webdataset> dataset_ = numbered_dataset(folder_, kTens);
  energon::HeapBufferPool memory_;
  RecordingMonitor monitor_;
  std::unique_ptr<Dataset> pipeline_;
};

std::string error_of_first(TaskEncoder encoder) {
  OddPipeline odd(std::move(encoder));
  return error_of([&] { odd.stream().next(); }, ErrorCode::kInvalidArgument);
}

// A leaf of the user whose samples have a field twice.
class LeafWithFieldTwice final : public energon::LeafDataset {
 public:
  const std::vector<std::int64_t>& shard_counts() const override { return counts_; }
  std::int64_t sample_count() const override { return counts_[0]; }
  const std::vector<std::int64_t>& excluded() const override { return excluded_; }
  energon::Config config() const override { return {}; }
  std::unique_ptr<energon::LeafReader> open_reader() const override {
    return std::make_unique<Reader>();
  }

 private:
  class Reader final : public energon::LeafReader {
   public:
    void read(std::span<const std::int64_t> indexes, energon::BufferAllocator& /*allocator*/,
              std::vector<Sample>& samples) override {
      for (const std::int64_t index : indexes) {
        Sample& sample = samples.emplace_back();
        sample.keys = {"sample " + std::to_string(index)};
        sample.fields = {{"x", index}, {"x", index}};
      }
    }
    energon::FailedSample describe(std::int64_t /*index*/) override { return {}; }
    std::optional<std::int64_t> broken_file(std::int64_t /*index*/) override { return {}; }
    bool needs_file(std::int64_t /*index*/, std::int64_t /*file*/) const override { return false; }
  };

  const std::vector<std::int64_t> counts_ = {8};
  const std::vector<std::int64_t> excluded_{};
};

// A leaf whose samples 2 and 5 cannot be read.
class UnreadableLeaf final : public energon::LeafDataset {
 public:
  const std::vector<std::int64_t>& shard_counts() const override { return counts_; }
  std::int64_t sample_count() const override { return counts_[0]; }
  const std::vector<std::int64_t>& excluded() const override { return excluded_; }
  energon::Config config() const override { return {}; }
  std::unique_ptr<energon::LeafReader> open_reader() const override {
    return std::make_unique<Reader>();
  }

 private:
  class Reader final : public energon::LeafReader {
   public:
    void read(std::span<const std::int64_t> indexes, energon::BufferAllocator& /*allocator*/,
              std::vector<Sample>& samples) override {
      for (const std::int64_t index : indexes) {
        if (index % 3 == 2) {
          throw energon::Error(ErrorCode::kCorruptData, "odd", {.sample_key = "said by the error"});
        }
        samples.emplace_back().keys = {"sample"};
      }
    }
    energon::FailedSample describe(std::int64_t index) override {
      return {.key = index == 5 ? "known to the reader" : ""};
    }
    std::optional<std::int64_t> broken_file(std::int64_t /*index*/) override { return {}; }
    bool needs_file(std::int64_t /*index*/, std::int64_t /*file*/) const override { return false; }
  };

  const std::vector<std::int64_t> counts_ = {7};
  const std::vector<std::int64_t> excluded_{};
};

}  // namespace

TEST_CASE("the error about a field added twice names field and sample",
          "[wrappers][odd_functions]") {
  const BatchFunction function =
      GENERATE(BatchFunction(energon::list_fields), BatchFunction(energon::stack_fields),
               energon::pad_stack_fields(), BatchFunction(energon::concat_fields),
               BatchFunction(energon::generic_batch), energon::mix_batch(),
               BatchFunction([](std::span<Sample>) { return Mapping(); }));
  CHECK_THAT(
      error_of_first({.encode_sample = energon::MapFunction(with_field_twice), .batch = function}),
      Catch::Contains("field 'txt' occurs twice") && Catch::Contains("000003"));
}

TEST_CASE("samples with a field twice are refused by every batch function, not read beyond",
          "[wrappers][odd_functions]") {
  const BatchFunction function =
      GENERATE(BatchFunction(energon::list_fields), BatchFunction(energon::stack_fields),
               energon::pad_stack_fields(), BatchFunction(energon::generic_batch));
  for (const std::size_t odd : {0, 1, 2}) {
    CAPTURE(odd);
    std::vector<Sample> samples(3);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      samples[i].keys = {"s" + std::to_string(i)};
      samples[i].fields = {{"a", std::int64_t{1}}, {"b", std::int64_t{2}}};
    }
    samples[odd].fields.emplace_back("a", std::int64_t{3});
    CHECK_THAT(error_of([&] { call_function(function, samples); }, ErrorCode::kInvalidArgument),
               Catch::Contains("field 'a' occurs twice in sample 's" + std::to_string(odd)));
  }
}

TEST_CASE("a field twice in a mapping of each sample is refused", "[wrappers][odd_functions]") {
  std::vector<Sample> samples(2);
  for (Sample& sample : samples) {
    sample.keys = {"k"};
    sample.fields = {{"m", Mapping{{"x", std::int64_t{1}}, {"x", std::int64_t{2}}}}};
  }
  CHECK_THAT(error_of([&] { call_function(energon::generic_batch, samples); },
                      ErrorCode::kInvalidArgument),
             Catch::Contains("field 'm.x' occurs twice in sample 'k'"));
}

TEST_CASE("a leaf that returns a field twice is an Error of the batch",
          "[wrappers][odd_functions]") {
  energon::HeapBufferPool memory;
  const bool in_groups = GENERATE(false, true);
  TaskEncoder encoder{.batch = [](std::span<Sample>) { return Mapping(); }};
  if (in_groups) {
    encoder.batch_group_criterion = [](const Sample&) { return energon::BatchGroup{"all"}; };
  }
  const auto stream =
      energon::val_pipeline(std::make_shared<const LeafWithFieldTwice>(),
                            {.task_encoder = encoder, .batch_size = 4})({.memory = memory});
  CHECK_THAT(error_of([&] { stream->next(); }, ErrorCode::kInvalidArgument),
             Catch::Contains("field 'x' occurs twice in sample 'sample 0'"));
}

TEST_CASE("a field twice is refused wherever a function returns fields",
          "[wrappers][odd_functions]") {
  const Mapping twice = {{"f", std::int64_t{1}}, {"f", std::int64_t{2}}};
  const auto fail = [](TaskEncoder encoder) {
    CHECK_THAT(error_of_first(std::move(encoder)), Catch::Contains("field 'f' occurs twice"));
  };
  fail({.encode_sample = energon::FlatMapFunction([&](Sample, CallContext&) {
          return [&, count = 0]() mutable -> std::optional<Sample> {
            Sample output;
            output.fields = twice;
            return count++ == 0 ? std::optional(output) : std::nullopt;
          };
        })});
  fail({.batch = [&](std::span<Sample>) { return twice; }});
  fail({.batch = [&](std::span<Sample>, CallContext&) {
    return [&]() -> std::optional<Mapping> { return twice; };
  }});
  fail({.encode_batch = energon::MapFunction([&](Sample batch, CallContext&) {
          batch.fields = twice;
          return batch;
        })});
}

TEST_CASE("names are compared in samples of few and of many fields", "[wrappers][odd_functions]") {
  for (const int count : {1, 2, 16, 17, 40}) {
    CAPTURE(count);
    Mapping fields;
    for (int i = 0; i < count; ++i) {
      fields.emplace_back("f" + std::to_string(i), std::int64_t{i});
    }
    CHECK_NOTHROW(energon::check_field_names(fields, "x"));
    fields.emplace_back("f0", std::int64_t{0});
    CHECK_THROWS_AS(energon::check_field_names(fields, "x"), energon::Error);
  }
}

TEST_CASE("a sample with a field twice is left out by the policy", "[wrappers][odd_functions]") {
  OddPipeline odd({.encode_sample = energon::MapFunction(with_field_twice)},
                  {.standard = energon::testing::kSkipFailures});
  const auto batch = odd.stream().next();
  REQUIRE(batch);
  CHECK(batch->keys.size() == 10);
  CHECK(std::ranges::count(batch->keys, "000003") == 0);
  CHECK(odd.monitor().reports().at(0).samples.at(0).key == "000003");
}

TEST_CASE("batches and packs with a field twice are reported with their samples",
          "[wrappers][odd_functions]") {
  const auto twice_at = [](std::span<const Sample> samples, const std::string& key) {
    Mapping fields = {{"f", std::int64_t{1}}};
    if (std::ranges::any_of(samples, [&](const Sample& sample) { return sample.keys[0] == key; })) {
      fields.emplace_back("f", std::int64_t{2});
    }
    return fields;
  };
  TaskEncoder encoder{
      .batch = [&](std::span<Sample> samples) { return twice_at(samples, "000012"); }};
  std::string stage = "batch";
  std::optional<std::int64_t> packing_buffer_size;
  SECTION("batch") {}
  SECTION("group batch") {
    encoder.batch_group_criterion = [](const Sample&) { return energon::BatchGroup{"all"}; };
  }
  SECTION("pack") {
    encoder = {};
    encoder.select_samples_to_pack = energon::SelectFunction([](std::span<const Sample> samples) {
      std::vector<std::size_t> all(samples.size());
      std::iota(all.begin(), all.end(), std::size_t{0});
      return std::vector<std::vector<std::size_t>>{all};
    });
    encoder.pack_selected_samples = energon::PackFunction(
        [&](std::span<Sample> samples, CallContext&) { return twice_at(samples, "000012"); });
    stage = "pack_selected_samples";
    packing_buffer_size = 10;
  }
  OddPipeline odd(encoder, {.standard = energon::testing::kSkipFailures}, packing_buffer_size);
  while (odd.stream().next()) {
  }
  REQUIRE(odd.monitor().reports().size() == 1);
  const energon::FailureReport& report = odd.monitor().reports()[0];
  CHECK(report.stage == stage);
  CHECK_THAT(report.cause, Catch::Contains("field 'f' occurs twice in the batch of '000010'"));
  REQUIRE(report.samples.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) {
    CAPTURE(i);
    CHECK(report.samples[i].key == fmt::format("{:06}", 10 + i));
    CHECK(report.samples[i].shard_name == "shard-001.tar");
    CHECK(report.samples[i].index_in_shard == static_cast<std::int64_t>(i));
  }
}

TEST_CASE("a sample that cannot be read is reported with the key that the error names",
          "[wrappers][odd_functions]") {
  energon::HeapBufferPool memory;
  RecordingMonitor monitor;
  const auto stream = energon::val_pipeline(
      std::make_shared<const UnreadableLeaf>(),
      {.batch_size = 8, .errors = {.standard = energon::testing::kSkipFailures}})(
      {.memory = memory, .monitor = monitor});
  CHECK(stream->next());
  REQUIRE(monitor.reports().size() == 2);
  CHECK(monitor.reports()[0].samples.at(0).key == "said by the error");
  CHECK(monitor.reports()[1].samples.at(0).key == "known to the reader");
}

TEST_CASE("a function that returns an empty sample leaves key and sources unchanged",
          "[wrappers][odd_functions]") {
  OddPipeline odd(
      {.encode_sample = energon::MapFunction([](Sample, CallContext&) { return Sample(); })});
  const auto batch = odd.stream().next();
  REQUIRE(batch);
  CHECK(batch->fields.empty());
  CHECK(batch->keys.size() == 10);
  CHECK(batch->keys.at(4) == "000004");
  CHECK(energon::source_of(*batch, 4).index_in_shard == 4);
}

TEST_CASE("fields that some samples lack, and empty names, are Errors or fields",
          "[wrappers][odd_functions]") {
  CHECK_THAT(error_of_first({.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
                               if (sample.keys.at(0) == "000002") {
                                 sample.fields.clear();
                               }
                               return sample;
                             })}),
             Catch::Contains("part 'txt' is missing") && Catch::Contains("000002"));
  OddPipeline odd({.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
                     sample.fields = {{"", std::int64_t{1}}};
                     sample.keys = {"", "another"};
                     return sample;
                   })});
  const auto batch = odd.stream().next();
  REQUIRE(batch);
  CHECK(batch->fields.at(0).first.empty());
  CHECK(batch->keys.size() == 20);
}

TEST_CASE("a source without a shard is an Error", "[wrappers][odd_functions]") {
  CHECK_THAT(error_of_first({.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
                               sample.sources = {{}};
                               return sample;
                             })}),
             Catch::Contains("has no shard") && Catch::Contains("000000"));
}

TEST_CASE("missing functions are refused when the pipeline is constructed",
          "[wrappers][odd_functions]") {
  const auto refused = [](TaskEncoder encoder) {
    const TempDir folder;
    const auto dataset = numbered_dataset(folder, {4});
    CHECK_THROWS_AS(
        energon::val_pipeline(dataset, {.task_encoder = std::move(encoder), .batch_size = 2}),
        energon::Error);
  };
  refused({.batch = BatchFunction(nullptr)});
  refused({.cookers = {{.cook = nullptr}}});
  refused(
      {.cut_selected_sample = [](Sample sample, const energon::SamplePart&) { return sample; }});
  refused({.batch_group_criterion = [](const Sample&) { return energon::BatchGroup{"g"}; },
           .batch = [](std::span<Sample>, CallContext&) { return energon::FieldsGenerator(); }});
}

TEST_CASE("meaningless negative numbers are refused when the pipeline is constructed",
          "[wrappers][odd_functions]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {4});
  const auto refused = [&](energon::TrainOptions options) {
    return error_of([&] { energon::train_pipeline(dataset, std::move(options)); },
                    ErrorCode::kInvalidArgument);
  };
  CHECK_THAT(refused({.shuffle_buffer_size = -1}),
             Catch::Contains("shuffle_buffer_size is -1, expected at least 0"));
  CHECK_THAT(refused({.errors = {.standard = {.tolerance = -1}}}),
             Catch::Contains("the failure tolerance is -1"));
  CHECK_THAT(refused({.errors = {.stages = {{"batch", {.tolerance = -2}}}}}),
             Catch::Contains("the failure tolerance of 'batch' is -2"));
}

TEST_CASE("a group without a batch size is an Error that names it", "[wrappers][odd_functions]") {
  const TempDir folder;
  energon::HeapBufferPool memory;
  const auto dataset = numbered_dataset(folder, kTens);
  const auto stream = energon::val_pipeline(
      dataset, {.task_encoder = {.batch_group_criterion = [](const Sample& sample) {
                  const auto number = energon::testing::number(sample);
                  return number < 6 ? energon::BatchGroup{"low", 3} : energon::BatchGroup{"high"};
                }}})({.memory = memory});
  CHECK(stream->next()->keys.size() == 3);
  CHECK(stream->next()->keys.size() == 3);
  CHECK_THAT(error_of([&] { stream->next(); }, ErrorCode::kInvalidArgument),
             Catch::Contains("group 'high'") && Catch::Contains("batch_size"));
}

TEST_CASE("an exception of a user's function has its own code, wherever it is thrown",
          "[wrappers][odd_functions]") {
  const auto code_of = [](TaskEncoder encoder) {
    OddPipeline odd(std::move(encoder));
    return error_of([&] { odd.stream().next(); }, ErrorCode::kUserFunction);
  };
  const auto fail = []() -> Sample { throw std::runtime_error("no luck"); };
  CHECK_THAT(code_of({.encode_sample =
                          energon::MapFunction([&](Sample, CallContext&) { return fail(); })}),
             Catch::Contains("stage 'encode_sample' failed: no luck"));
  CHECK_THAT(code_of({.encode_sample = energon::FlatMapFunction(
                          [&](Sample, CallContext&) -> energon::SampleGenerator {
                            fail();
                            return nullptr;
                          })}),
             Catch::Contains("stage 'encode_sample' failed: no luck"));
  CHECK_THAT(code_of({.batch = [&](std::span<Sample>) { return fail().fields; }}),
             Catch::Contains("stage 'batch' failed: no luck"));
  CHECK_THAT(code_of({.batch = [](std::span<Sample>) -> Mapping { throw 3; }}),
             Catch::Contains("not a std::exception"));
  CHECK_THAT(code_of({.batch_group_criterion = [&](const Sample&) -> energon::BatchGroup {
               fail();
               return {};
             }}),
             Catch::Contains("stage 'batch_group_criterion' failed: no luck"));
  energon::testing::NumberedStream samples;
  energon::IterMap iter_map(
      samples.in_order(),
      {.function = [&](const energon::Pull& pull, CallContext&) -> energon::SampleGenerator {
        pull();
        fail();
        return nullptr;
      }});
  CHECK_THAT(error_of([&] { iter_map.next(); }, ErrorCode::kUserFunction),
             Catch::Contains("stage 'iter_map' failed: no luck"));
}

TEST_CASE("an exception while a saved position is rebuilt has that code, too",
          "[wrappers][odd_functions]") {
  energon::testing::NumberedStream samples;
  bool fails = false;
  const auto make = [&] {
    return std::make_unique<energon::FlatMap>(
        samples.in_order(),
        [&fails](Sample sample, CallContext&) -> energon::SampleGenerator {
          if (fails) {
            throw std::runtime_error("no luck");
          }
          return [sample, count = 0]() mutable {
            return count++ < 3 ? std::optional(sample) : std::nullopt;
          };
        },
        energon::StageOptions{.name = "split"});
  };
  const auto stream = make();
  stream->next();
  const auto resumed = make();
  resumed->restore_state(stream->save_state());
  fails = true;
  CHECK_THAT(error_of([&] { resumed->next(); }, ErrorCode::kUserFunction),
             Catch::Contains("cannot be rebuilt: no luck"));
}
