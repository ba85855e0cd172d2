#include "wrappers/shuffle_buffer.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {

ShuffleBuffer::ShuffleBuffer(std::unique_ptr<Order> inner, std::int64_t size, std::uint32_t seed)
    : inner_(std::move(inner)), size_(size), rng_(seed) {
  // 2^28 references are 4 GiB; positions are drawn with 32 bits.
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 28;
  if (size < 1 || size > kMaxSize) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("shuffle buffer size is {}, it must be from 1 to {}", size, kMaxSize));
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
  std::string refs;
  refs.reserve(buffer_.size() * sizeof(SampleRef));
  buffer_.for_each_block([&refs](const std::vector<SampleRef>& block) {
    refs.append(reinterpret_cast<const char*>(block.data()), block.size() * sizeof(SampleRef));
  });
  return {
      "ShuffleBuffer", {{"rng", rng_.save()}, {"buffer", std::move(refs)}}, {inner_->save_state()}};
}

void ShuffleBuffer::check_state(const State& state, std::vector<std::string>& differences) const {
  try {
    Mt19937(0).restore(state.bytes("rng"));
  } catch (const Error& error) {
    differences.push_back("ShuffleBuffer: " + error.message());
  }
  const std::size_t bytes = state.bytes("buffer").size();
  if (bytes % sizeof(SampleRef) != 0 ||
      bytes / sizeof(SampleRef) > static_cast<std::size_t>(size_)) {
    differences.push_back(
        fmt::format("ShuffleBuffer: {} bytes of buffered references, at most {} of {} bytes fit",
                    bytes, size_, sizeof(SampleRef)));
  }
  check(*inner_, state.children[0], differences);
}

void ShuffleBuffer::apply_state(const State& state) {
  rng_.restore(state.bytes("rng"));
  const std::string& refs = state.bytes("buffer");
  buffer_.clear();
  for (std::size_t offset = 0; offset < refs.size(); offset += sizeof(SampleRef)) {
    SampleRef ref;
    std::memcpy(&ref, refs.data() + offset, sizeof(ref));
    buffer_.push_back(ref);
  }
  apply(*inner_, state.children[0]);
}

Config ShuffleBuffer::config() const {
  return {{"type", "ShuffleBuffer"}, {"size", size_}, {"inner", inner_->config()}};
}

}  // namespace energon
