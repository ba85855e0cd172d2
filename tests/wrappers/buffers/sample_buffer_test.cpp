#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/buffers/combine.h"

using energon::PayloadBudget;
using energon::RestoreKey;
using energon::SampleBuffer;
using energon::testing::FailingOnce;
using energon::testing::label;
using energon::testing::NumberedStream;

TEST_CASE("a sample buffer returns the same samples whether it holds them or not",
          "[wrappers][sample_buffer]") {
  NumberedStream samples;
  FailingOnce inner(samples.shuffled(), -1);
  const auto limit = GENERATE(std::uint64_t{0}, std::uint64_t{200}, energon::kMaxHeldBytes);
  PayloadBudget budget{limit};
  SampleBuffer buffer(inner, budget);
  std::vector<std::string> expected;
  for (int i = 0; i < 12; ++i) {
    auto sample = inner.next();
    expected.push_back(label(*sample));
    buffer.push_back(std::move(*sample));
  }
  CHECK(budget.held_bytes <= limit);
  std::vector<std::string> labels;
  for (const std::size_t count : {3, 0, 8, 1}) {
    for (const auto& sample : buffer.take_front(count)) {
      labels.push_back(label(sample));
    }
  }
  CHECK(labels == expected);
  CHECK(buffer.empty());
  CHECK(budget.held_bytes == 0);
  CHECK((inner.restored() == 0) == (limit == energon::kMaxHeldBytes));
}

TEST_CASE("a restored buffer reads nothing before a sample is taken", "[wrappers][sample_buffer]") {
  NumberedStream samples;
  FailingOnce inner(samples.in_order(), -1);
  PayloadBudget budget{energon::kMaxHeldBytes};
  SampleBuffer buffer(inner, budget);
  for (int i = 0; i < 4; ++i) {
    buffer.push_back(*inner.next());
  }
  SampleBuffer restored(inner, budget);
  restored.push_back(*inner.next());
  const std::uint64_t held = budget.held_bytes;
  restored.restore(buffer.save());
  CHECK(budget.held_bytes < held);
  CHECK(restored.save() == buffer.save());
  CHECK(inner.restored() == 0);
  CHECK(restored.take_front(1).at(0).keys == std::vector<std::string>{"000000"});
  CHECK(inner.restored() == 1);
  CHECK(restored.size() == 3);
}

TEST_CASE("a sample that cannot be rebuilt leaves the buffer as it was",
          "[wrappers][sample_buffer]") {
  NumberedStream samples;
  const auto inner = samples.in_order();
  PayloadBudget budget{energon::kMaxHeldBytes};
  SampleBuffer buffer(*inner, budget);
  const std::vector<RestoreKey> keys = {RestoreKey::from_text("Webdataset(0,1)"),
                                        RestoreKey::from_text("Webdataset(0,99)")};
  buffer.restore(energon::encode_keys(keys));
  CHECK_THROWS_WITH(buffer.take_front(2), Catch::Contains("'Webdataset(0,99)' of the saved"));
  CHECK(energon::decode_keys(buffer.save()) == keys);
  CHECK(buffer.take_front(1).at(0).keys == std::vector<std::string>{"000001"});
}

TEST_CASE("lists of keys truncated at any byte are refused", "[wrappers][sample_buffer]") {
  const std::vector<RestoreKey> keys = {RestoreKey::from_text("Webdataset(0,1)"),
                                        RestoreKey::from_text("Map(4)/Webdataset(0,99)")};
  const std::string bytes = energon::encode_keys(keys);
  CHECK(energon::decode_keys(bytes) == keys);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_WITH(energon::decode_keys(bytes.substr(0, length)),
                      Catch::Contains("a list of saved keys is damaged"));
  }
  CHECK_THROWS_AS(energon::decode_keys(bytes + "x"), energon::Error);
  CHECK_THROWS_AS(energon::decode_keys("\xff\xff\xff\xff"), energon::Error);
}
