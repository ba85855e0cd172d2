// The test suite for pipeline stages: saves at every index and resumes from each.
//
//   check_conformance<Dataset>([&] { return make_batches(); });
//
// It asserts: the stream is deterministic; the end is sticky; saving has no side effects and gives
// the same state twice; resuming from the state at any index of two epochs gives the same rest of
// the stream; a reached end is restored as an end; skipping n equals taking n; a state of another
// stage is refused with all differences and has no effect. For datasets also: another pipeline
// rebuilds every item from its key without changing its own position.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/order/order.h"
#include "energon/stage/dataset.h"
#include "io/error.h"

namespace energon::testing {

/// Identifies an item.
inline std::string label(const SampleRef& ref) {
  return std::to_string(ref.leaf) + ":" + std::to_string(ref.index) + "@" +
         std::to_string(ref.repetition);
}
inline std::string label(const Sample& sample) {
  return sample.restore_key.text() + "=" + std::to_string(digest(sample));
}

inline constexpr const char* kEndOfEpoch = "end of epoch";

/// The next item's label. At the end of an epoch, begins the next one and returns kEndOfEpoch.
template <class Stage>
std::string step(Stage& stage) {
  if (auto item = stage.next()) {
    return label(*item);
  }
  stage.next_epoch();
  return kEndOfEpoch;
}

template <class Stage>
std::vector<std::string> steps(Stage& stage, std::size_t count) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < count; ++i) {
    labels.push_back(step(stage));
  }
  return labels;
}

/// Checks the stages that `make` returns. `length`: number of steps to check; more than two epochs,
/// if epochs end.
template <class Stage>
void check_conformance(const std::function<std::unique_ptr<Stage>()>& make, std::size_t length) {
  const auto reference = steps(*make(), length);
  REQUIRE(steps(*make(), length) == reference);

  SECTION("the end of an epoch is sticky") {
    const auto stage = make();
    for (const std::string& expected : reference) {
      if (expected == kEndOfEpoch) {
        CHECK_FALSE(stage->next());
        CHECK_FALSE(stage->next());
      }
      CHECK(step(*stage) == expected);
    }
  }
  SECTION("saving has no effect, and every state resumes the rest of the stream") {
    const auto stage = make();
    for (std::size_t i = 0; i <= length; ++i) {
      const State state = stage->save_state();
      CHECK(stage->save_state() == state);
      CHECK(decode_state(encode_state(state)) == state);
      const auto resumed = make();
      resumed->restore_state(state);
      CHECK(resumed->save_state() == state);
      INFO("resumed at " << i);
      CHECK(steps(*resumed, length - i) ==
            std::vector(reference.begin() + static_cast<std::ptrdiff_t>(i), reference.end()));
      if (i < length) {
        CHECK(step(*stage) == reference[i]);
      }
    }
  }
  SECTION("a reached end is restored as an end") {
    const auto stage = make();
    for (std::size_t i = 0; i < length; ++i) {
      if (reference[i] == kEndOfEpoch) {
        CHECK_FALSE(stage->next());
        const auto resumed = make();
        resumed->restore_state(stage->save_state());
        CHECK_FALSE(resumed->next());
        CHECK(resumed->save_state() == stage->save_state());
        CHECK(steps(*resumed, length - i) ==
              std::vector(reference.begin() + static_cast<std::ptrdiff_t>(i), reference.end()));
      }
      CHECK(step(*stage) == reference[i]);
    }
  }
  SECTION("restoring replaces the whole state of a stream that ran elsewhere") {
    const auto stage = make();
    steps(*stage, length / 3);
    const State state = stage->save_state();
    const auto other = make();
    steps(*other, length / 2 + 1);
    other->restore_state(state);
    CHECK(
        steps(*other, length - length / 3) ==
        std::vector(reference.begin() + static_cast<std::ptrdiff_t>(length / 3), reference.end()));
  }
  SECTION("skipping equals taking") {
    const auto end = std::find(reference.begin(), reference.end(), kEndOfEpoch);
    const auto epoch = end - reference.begin();
    for (std::ptrdiff_t count = 0; count <= epoch; ++count) {
      const auto stage = make();
      CHECK(stage->skip(count) == count);
      CHECK(steps(*stage, length - static_cast<std::size_t>(count)) ==
            std::vector(reference.begin() + count, reference.end()));
    }
    if (end != reference.end()) {
      CHECK(make()->skip(epoch + 7) == epoch);
      if (const auto size = make()->size()) {
        CHECK(*size == epoch);
      }
    }
  }
  if constexpr (std::is_base_of_v<Dataset, Stage>) {
    SECTION("every item is rebuilt from its key") {
      const auto stage = make();
      const auto other = make();
      steps(*other, length / 2);
      const State position = other->save_state();
      for (std::size_t i = 0; i < length; ++i) {
        const auto item = stage->next();
        if (!item) {
          stage->next_epoch();
          continue;
        }
        INFO(item->restore_key.text());
        const auto fresh = make();
        for (Stage* pipeline : {fresh.get(), other.get()}) {
          const Sample rebuilt = pipeline->restore_sample(item->restore_key);
          CHECK(label(rebuilt) == label(*item));
          CHECK(rebuilt.keys == item->keys);
          CHECK(rebuilt.sources.size() == item->sources.size());
        }
      }
      CHECK(other->save_state() == position);
      CHECK_THROWS_AS(other->restore_sample(RestoreKey()), Error);
    }
  }
  SECTION("a foreign state is refused with all differences, without effect") {
    State foreign = make()->save_state();
    foreign.fields.emplace_back("unknown field", std::int64_t{1});
    foreign.children.push_back({"Stranger", {}, {}});
    const auto stage = make();
    steps(*stage, 1);
    try {
      stage->restore_state(foreign);
      FAIL_CHECK("the foreign state was accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kMismatch);
      CHECK_THAT(error.what(), Catch::Contains("unknown field") && Catch::Contains("inner stages"));
    }
    CHECK_THROWS_AS(stage->restore_state({"Stranger", {}, {}}), Error);
    CHECK(steps(*stage, length - 1) == std::vector(reference.begin() + 1, reference.end()));
  }
}

}  // namespace energon::testing
