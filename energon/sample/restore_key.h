// The path of one emitted item through the pipeline. It is sufficient to rebuild exactly that item.
//
// Text form, outermost stage first:
//
//   LogicalShard(3,17)/Batch(17)[Webdataset(0,812),Webdataset(0,40)]
//
// A stage has a name, integers, and either one inner key ("/key"), a list of inner keys ("[…]") or
// no inner key. The byte form sorts in the order of the (stage, integers, inner keys) tuples. It is
// the form that is sent between processes and hashed. docs/formats/restore_key.md gives its layout.

#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/sample_ref.h"

namespace energon {

/// Stages that appear in keys. The numbers are part of the byte form: append, never renumber.
enum class Stage : std::uint8_t {
  kWebdataset = 1,    ///< (leaf, sample index); no inner key
  kMap = 2,           ///< (call number); one inner key
  kBatch = 3,         ///< (batch number); a list of inner keys
  kLogicalShard = 4,  ///< (logical shard, number of the item in it); one inner key
  kFlatMap = 5,       ///< (call number, output of that call); one inner key
  kIterMap = 6,       ///< (call number, output of that call); a list of inner keys
  kGroupBatch = 7,    ///< (batch number); a list of inner keys
  /// (pack) or (call, output of that call); a list of inner keys. For the selected part of a
  /// sample: (begin, end); one inner key.
  kPacking = 8,
};

/// The name in the text form, such as "Webdataset".
std::string_view to_string(Stage stage);

/// A value type: comparable and hashable.
class RestoreKey {
 public:
  /// An empty key, which identifies no item.
  RestoreKey() = default;

  /// A stage without inner keys. Integers must not be negative.
  static RestoreKey leaf(Stage stage, std::initializer_list<std::int64_t> integers);
  /// A stage around one inner key.
  static RestoreKey around(Stage stage, std::initializer_list<std::int64_t> integers,
                           const RestoreKey& inner);
  /// A stage around a list of inner keys.
  static RestoreKey list(Stage stage, std::initializer_list<std::int64_t> integers,
                         std::span<const RestoreKey> inner);

  /// Both throw Error (kInvalidArgument) with the position of the first invalid character or byte.
  static RestoreKey from_text(std::string_view text);
  static RestoreKey from_bytes(std::string_view bytes);

  bool empty() const { return bytes_.empty(); }
  std::string text() const;
  const std::string& bytes() const { return bytes_; }

  auto operator<=>(const RestoreKey&) const = default;
  bool operator==(const RestoreKey&) const = default;

 private:
  friend class RestoreKeyList;
  explicit RestoreKey(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;
};

/// Builds RestoreKey::list() one key at a time, without an array of keys.
class RestoreKeyList {
 public:
  /// Integers must not be negative.
  RestoreKeyList(Stage stage, std::initializer_list<std::int64_t> integers);

  void add(const RestoreKey& inner) { bytes_ += inner.bytes(); }
  /// Returns the key. Do not use the builder afterwards.
  RestoreKey finish();

 private:
  std::string bytes_;
};

/// The outermost stage of a key, and its inner keys.
struct RestoreKeyParts {
  Stage stage;
  std::vector<std::int64_t> integers;
  std::vector<RestoreKey> inner;
};

/// Splits off the outermost stage. Throws Error (kInvalidArgument) unless the key starts with
/// `stage`, has `integer_count` integers and, if `inner_count` is given, that many inner keys.
RestoreKeyParts split_key(const RestoreKey& key, Stage stage, std::size_t integer_count,
                          std::optional<std::size_t> inner_count = std::nullopt);

/// Returns the samples from which the item of `key` was made, in order: the innermost keys, through
/// all stages. Their repetitions are 0. Throws Error (kInvalidArgument) if an innermost key is not
/// a sample that was read.
std::vector<SampleRef> samples_in(const RestoreKey& key);

/// Returns the leaf dataset that the item of `key` was read from; for an item made of several
/// samples, the leaf of the first one. Throws Error (kInvalidArgument) if the first innermost key
/// is not a sample that was read.
std::int64_t leaf_of(const RestoreKey& key);

}  // namespace energon

template <>
struct std::hash<energon::RestoreKey> {
  std::size_t operator()(const energon::RestoreKey& key) const noexcept {
    return std::hash<std::string>()(key.bytes());
  }
};
