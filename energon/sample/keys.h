// The keys of a sample or of the samples of a batch, in one flat array of characters.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace energon {

/// A list of keys. A key that is read is a view, valid until the list is changed or destroyed. Once
/// it has grown, a list is cleared and filled again without an allocation.
class Keys {
 public:
  class const_iterator;
  using value_type = std::string_view;
  using iterator = const_iterator;
  using size_type = std::size_t;

  Keys() = default;
  Keys(std::initializer_list<std::string_view> keys);
  /// The type that keys had before; converts, so that code which sets a vector still works.
  Keys(const std::vector<std::string>& keys);

  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }

  /// Requires: index < size().
  std::string_view operator[](std::size_t index) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return {characters_.data() + begin, ends_[index] - begin};
  }
  /// Throws std::out_of_range.
  std::string_view at(std::size_t index) const;
  /// Both require: !empty().
  std::string_view front() const { return (*this)[0]; }
  std::string_view back() const { return (*this)[size() - 1]; }

  const_iterator begin() const;
  const_iterator end() const;

  void push_back(std::string_view key);
  /// Appends the keys [begin, end) of `other`, which may be this list. Requires: they exist.
  void append(const Keys& other, std::size_t begin, std::size_t end);
  void append(const Keys& other) { append(other, 0, other.size()); }
  /// Keeps the memory.
  void clear();
  void reserve(std::size_t count, std::size_t characters);

  /// The characters of all keys, one after the other.
  std::string_view characters() const { return characters_; }

  /// A copy of each key.
  std::vector<std::string> strings() const;

  bool operator==(const Keys&) const = default;

 private:
  std::string characters_;
  std::vector<std::size_t> ends_;  // where each key ends in `characters_`
};

class Keys::const_iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = std::string_view;
  using difference_type = std::ptrdiff_t;
  using reference = std::string_view;
  using pointer = void;

  const_iterator() = default;
  const_iterator(const Keys& keys, std::size_t index)
      : keys_(&keys), index_(static_cast<std::ptrdiff_t>(index)) {}

  std::string_view operator*() const { return (*keys_)[static_cast<std::size_t>(index_)]; }
  std::string_view operator[](std::ptrdiff_t count) const { return *(*this + count); }
  const_iterator& operator++() { return *this += 1; }
  const_iterator& operator--() { return *this += -1; }
  const_iterator operator++(int) {
    const const_iterator before = *this;
    ++*this;
    return before;
  }
  const_iterator operator--(int) {
    const const_iterator before = *this;
    --*this;
    return before;
  }
  const_iterator& operator+=(std::ptrdiff_t count) {
    index_ += count;
    return *this;
  }
  const_iterator& operator-=(std::ptrdiff_t count) { return *this += -count; }
  friend const_iterator operator+(const_iterator it, std::ptrdiff_t count) { return it += count; }
  friend const_iterator operator+(std::ptrdiff_t count, const_iterator it) { return it += count; }
  friend const_iterator operator-(const_iterator it, std::ptrdiff_t count) { return it -= count; }
  friend std::ptrdiff_t operator-(const const_iterator& a, const const_iterator& b) {
    return a.index_ - b.index_;
  }
  // Requires: both are of one list.
  friend bool operator==(const const_iterator& a, const const_iterator& b) {
    return a.index_ == b.index_;
  }
  friend auto operator<=>(const const_iterator& a, const const_iterator& b) {
    return a.index_ <=> b.index_;
  }

 private:
  const Keys* keys_ = nullptr;
  std::ptrdiff_t index_ = 0;
};

inline Keys::const_iterator Keys::begin() const { return {*this, 0}; }
inline Keys::const_iterator Keys::end() const { return {*this, size()}; }

}  // namespace energon
