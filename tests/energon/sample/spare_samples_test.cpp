#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/sample/sample.h"

namespace energon {
namespace {

Sample some_sample() {
  Sample sample = take_spare_sample();
  sample.keys.push_back("a key that is on the heap because it is long");
  sample.restore_key = RestoreKey::leaf(Stage::kWebdataset, {0, 1});
  sample.fields.emplace_back("txt", std::string("text"));
  sample.sources.push_back({.shard = std::make_shared<SourceShard>()});
  sample.place = BatchPlace{};
  return sample;
}

void keep(Sample sample) {
  std::vector<Sample> samples;
  samples.push_back(std::move(sample));
  keep_spare_samples(samples);
  CHECK(samples.empty());
}

}  // namespace

TEST_CASE("a spare sample is empty and reuses the memory of the last one", "[energon][sample]") {
  Sample first = some_sample();
  const std::weak_ptr<const SourceShard> shard = first.sources.front().shard;
  const void* const fields = first.fields.data();
  keep(std::move(first));
  CHECK(shard.expired());

  const Sample second = take_spare_sample();
  CHECK(second.keys.empty());
  CHECK(second.restore_key.empty());
  CHECK(second.fields.empty());
  CHECK(second.sources.empty());
  CHECK_FALSE(second.place.has_value());
  CHECK(second.fields.data() == fields);
}

TEST_CASE("samples with many fields are not kept", "[energon][sample]") {
  while (take_spare_sample().fields.capacity() > 0) {
  }
  Sample large = some_sample();
  large.fields.reserve(1000);
  keep(std::move(large));
  CHECK(take_spare_sample().fields.capacity() == 0);
}

TEST_CASE("each thread has its own spare samples", "[energon][sample]") {
  Sample sample = some_sample();
  const void* const fields = sample.fields.data();
  keep(std::move(sample));
  const void* other = nullptr;
  std::thread([&] { other = take_spare_sample().fields.data(); }).join();
  CHECK(other == nullptr);
  CHECK(take_spare_sample().fields.data() == fields);
}

}  // namespace energon
