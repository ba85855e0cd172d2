#include "cli/job/touch.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <variant>

#include "io/bytes.h"

namespace energon::cli {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

std::uint64_t word_at(const std::byte* place, std::size_t size) {
  std::uint64_t word = 0;
  std::memcpy(&word, place, size);
  return word;
}

std::uint64_t sum_of(ByteView bytes) {
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; at + kWord <= bytes.size(); at += kWord) {
    sum += word_at(bytes.data() + at, kWord);
  }
  return at < bytes.size() ? sum + word_at(bytes.data() + at, bytes.size() - at) : sum;
}

std::uint64_t sum_of(const Value& value) {
  const auto visitor = [](const auto& content) -> std::uint64_t {
    using Kind = std::decay_t<decltype(content)>;
    std::uint64_t sum = 0;
    if constexpr (std::is_same_v<Kind, SharedBytes>) {
      sum = sum_of(content.view);
    } else if constexpr (std::is_same_v<Kind, Tensor>) {
      sum = sum_of(content.data.view);
    } else if constexpr (std::is_same_v<Kind, std::string>) {
      sum = sum_of(as_bytes(content));
    } else if constexpr (std::is_same_v<Kind, List>) {
      for (const Value& element : content) {
        sum += sum_of(element);
      }
    } else if constexpr (std::is_same_v<Kind, Mapping>) {
      for (const auto& [name, element] : content) {
        sum += sum_of(element);
      }
    } else if constexpr (std::is_same_v<Kind, Tuple>) {
      for (const Value& element : content.items) {
        sum += sum_of(element);
      }
    } else if constexpr (std::is_same_v<Kind, BigInteger>) {
      sum = sum_of(as_bytes(content.digits()));
    } else if constexpr (!std::is_same_v<Kind, LazyBytes>) {
      sum = word_at(reinterpret_cast<const std::byte*>(&content), sizeof(content));
    }
    return sum;
  };
  return std::visit(visitor, value.base());
}

}  // namespace

std::uint64_t sum_of_words(const Sample& batch) {
  std::uint64_t sum = 0;
  for (const auto& [name, value] : batch.fields) {
    sum += sum_of(value);
  }
  return sum;
}

}  // namespace energon::cli
