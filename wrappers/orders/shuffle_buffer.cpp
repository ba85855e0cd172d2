#include "wrappers/orders/shuffle_buffer.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

ShuffleBuffer::ShuffleBuffer(std::unique_ptr<Order> inner, std::int64_t size, std::uint32_t seed)
    : inner_(std::move(inner)), size_(size), rng_(seed) {
  // 2^28 references are 4 GiB; positions are drawn with 32 bits.
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 28;
  if (size < 1 || size > kMaxSize) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("shuffle buffer size is {}, expected 1 to {}", size, kMaxSize));
  }
}

std::optional<SampleRef> ShuffleBuffer::next() {
  while (static_cast<std::int64_t>(buffer_.size()) < size_) {
    const auto ref = inner_->next();
    if (!ref) {
      break;
    }
    buffer_.push_back(*ref);
  }
  if (buffer_.size() == 0) {
    return std::nullopt;
  }
  const std::int64_t position = rng_.randbelow(static_cast<std::int64_t>(buffer_.size()));
  return buffer_.take(static_cast<std::size_t>(position));
}

void ShuffleBuffer::next_epoch() {
  buffer_.clear();
  inner_->next_epoch();
}

State ShuffleBuffer::save_state() const {
  SampleRefPacker packer;
  buffer_.for_each_block([&packer](const std::vector<SampleRef>& block) { packer.measure(block); });
  buffer_.for_each_block([&packer](const std::vector<SampleRef>& block) { packer.add(block); });
  // One by one, because an initializer list would copy megabytes.
  State state;
  state.type = "ShuffleBuffer";
  state.fields.reserve(2);
  state.fields.emplace_back("rng", rng_.save());
  state.fields.emplace_back("references", packer.take());
  state.children.push_back(inner_->save_state());
  return state;
}

void ShuffleBuffer::check_state(const State& state, std::vector<std::string>& differences) const {
  try {
    Mt19937(0).restore(state.bytes("rng"));
    check_references(unpack_sample_refs(state.bytes("references"), static_cast<std::size_t>(size_)),
                     differences);
  } catch (const Error& error) {
    differences.push_back("ShuffleBuffer: " + error.message());
  }
  check(*inner_, state.children[0], differences);
}

// Checks that the inner order can yield each reference.
void ShuffleBuffer::check_references(std::span<const SampleRef> refs,
                                     std::vector<std::string>& differences) const {
  if (refs.empty()) {
    return;
  }
  const LeafRanges ranges(*inner_);
  for (const SampleRef& ref : refs) {
    if (!ranges.may_have(ref.leaf, ref.index)) {
      differences.push_back(
          fmt::format("ShuffleBuffer: sample {} of leaf {} does not belong to this logical shard",
                      ref.index, ref.leaf));
      return;
    }
  }
}

void ShuffleBuffer::apply_state(const State& state) {
  rng_.restore(state.bytes("rng"));
  buffer_.clear();
  for (const SampleRef& ref :
       unpack_sample_refs(state.bytes("references"), static_cast<std::size_t>(size_))) {
    buffer_.push_back(ref);
  }
  apply(*inner_, state.children[0]);
}

Config ShuffleBuffer::config() const {
  return {{"type", "ShuffleBuffer"}, {"size", size_}, {"inner", inner_->config()}};
}

}  // namespace energon
