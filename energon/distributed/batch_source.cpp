#include "energon/distributed/batch_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {

std::int64_t BatchSource::skip(std::int64_t count) {
  std::int64_t skipped = 0;
  while (skipped < count && next()) {
    ++skipped;
  }
  return skipped;
}

void BatchSource::set_epoch(std::int64_t epoch) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("epoch {} cannot be chosen: the order of this source is one stream; "
                          "restore a state instead",
                          epoch));
}

Sample BatchSource::restore_sample(const RestoreKey& key) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("this source cannot rebuild the batch {}", key.text()));
}

void BatchSource::check_shape(const State& state, const State& expected) {
  State outer = state;
  State outer_expected = expected;
  std::vector<std::string> differences;
  if (state.children.size() != expected.children.size()) {
    differences.push_back(fmt::format("{}: {} inner states, expected {}", expected.type,
                                      state.children.size(), expected.children.size()));
  }
  outer.children.clear();
  outer_expected.children.clear();
  compare_shapes(outer, outer_expected, expected.type, differences);
  if (!differences.empty()) {
    throw Error(ErrorCode::kMismatch, fmt::format("the state does not fit this {}: {}",
                                                  expected.type, fmt::join(differences, "; ")));
  }
}

}  // namespace energon
