// Invariants of every decoded value.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/data/documents.h"
#include "media/decode_limits.h"
#include "media/tensor_decoder.h"
#include "tests/fuzz/input.h"

namespace energon::fuzz {

/// Small, so that runs are fast and a limit that is not enforced shows soon.
inline constexpr DecodeLimits kFuzzLimits = {
    .max_pixels = 1 << 14, .max_bytes = 1 << 18, .max_depth = 20};

/// Reads all bytes, so that AddressSanitizer checks them.
inline void touch(ByteView bytes) {
  std::uint8_t all = 0;
  for (const std::byte byte : bytes) {
    all ^= std::to_integer<std::uint8_t>(byte);
  }
  [[maybe_unused]] volatile std::uint8_t seen = all;
}

inline void check_tensor(const Tensor& tensor) {
  const ByteView bytes = tensor.data.view;
  require(bytes.size() == tensor_bytes(tensor.dtype, tensor.shape));
  require(reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(tensor.dtype) == 0);
  touch(bytes);
}

inline bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::ranges::equal(a.data.view, b.data.view);
}

/// Strings are UTF-8, tensors have all their bytes, and nesting is within the limit.
inline void check_value(const Value& value, int depth = 0) {
  require(depth <= kFuzzLimits.max_depth);
  if (const auto* bytes = std::get_if<SharedBytes>(&value)) {
    touch(bytes->view);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    require(decode_text(as_bytes(*text)) == *text);
  } else if (const auto* tensor = std::get_if<Tensor>(&value)) {
    check_tensor(*tensor);
  } else if (const auto* list = std::get_if<List>(&value)) {
    for (const Value& item : *list) {
      check_value(item, depth + 1);
    }
  } else if (const auto* mapping = std::get_if<Mapping>(&value)) {
    for (const auto& [name, item] : *mapping) {
      check_value(item, depth + 1);
    }
  }
}

/// Checks that decode_into() writes exactly the bytes that probe() announces: memory with two
/// different fills gives the same tensor. Returns the tensor.
inline std::vector<std::byte> decode_checked(const TensorDecoder& decoder, ByteView encoded,
                                             const TensorSpec& spec) {
  const std::size_t bytes = tensor_bytes(spec.dtype, spec.shape);
  std::vector<std::byte> first(bytes, std::byte{0x55});
  std::vector<std::byte> second(bytes, std::byte{0xAA});
  decoder.decode_into(encoded, first);
  try {
    decoder.decode_into(encoded, second);
  } catch (const Error&) {
    require(false);
  }
  require(first == second);
  return first;
}

}  // namespace energon::fuzz
