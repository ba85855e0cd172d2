#include "energon/sample/keys.h"

#include <stdexcept>

#include <fmt/format.h>

namespace energon {

Keys::Keys(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    push_back(key);
  }
}

Keys::Keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    push_back(key);
  }
}

std::string_view Keys::at(std::size_t index) const {
  if (index >= size()) {
    throw std::out_of_range(fmt::format("key {} of {}", index, size()));
  }
  return (*this)[index];
}

void Keys::push_back(std::string_view key) {
  characters_.append(key);
  ends_.push_back(characters_.size());
}

void Keys::append(const Keys& other, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    push_back(other[i]);
  }
}

void Keys::clear() {
  characters_.clear();
  ends_.clear();
}

void Keys::reserve(std::size_t count, std::size_t characters) {
  ends_.reserve(count);
  characters_.reserve(characters);
}

std::vector<std::string> Keys::strings() const {
  std::vector<std::string> copies;
  copies.reserve(size());
  for (const std::string_view key : *this) {
    copies.emplace_back(key);
  }
  return copies;
}

}  // namespace energon
