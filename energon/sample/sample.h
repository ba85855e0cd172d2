// A sample, or a batch of samples: one concrete, self-describing type.
//
// Fields are ordered, named values. In a sample read from a shard they are its parts, as bytes;
// user functions may store any other value. Because the type describes itself, a sample can be
// written into shared memory, displayed, hashed and restored by code that does not know which stage
// made it.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "energon/sample/batch_place.h"
#include "energon/sample/keys.h"
#include "energon/sample/lazy_bytes.h"
#include "energon/sample/restore_key.h"
#include "io/bytes.h"

namespace energon {

/// Element types of tensors. The numbers are sent between processes and stored in files: append,
/// never renumber.
enum class DType : std::uint8_t {
  kUInt8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kBFloat16 = 7,
  kFloat32 = 8,
  kFloat64 = 9,
  kBool = 10
};

/// Bytes per element; 0 if `dtype` is not a valid DType.
std::size_t size_of(DType dtype);
std::string_view to_string(DType dtype);

/// A dense tensor on the CPU, row-major, contiguous, read-only because several owners may share its
/// memory. energon/torch/tensor.h wraps it as a torch tensor without a copy.
struct Tensor {
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  SharedBytes data;  ///< product(shape) * size_of(dtype) bytes, aligned for the dtype
};

struct Value;
using List = std::vector<Value>;
using Mapping = std::vector<std::pair<std::string, Value>>;  ///< ordered
/// The value of a field that has none, such as a null of JSON.
using Null = std::monostate;

/// A list of fixed length, which languages such as Python tell apart from a List. Batch functions
/// take it as one value.
struct Tuple {
  List items;
};

/// An integer that std::int64_t may not hold, as decimal text.
class BigInteger {
 public:
  /// Digits without leading zeros, behind a '-' if it is below 0. Throws Error (kInvalidArgument)
  /// for any other text.
  explicit BigInteger(std::string digits);
  static bool is_valid(std::string_view digits);

  const std::string& digits() const { return digits_; }
  bool operator==(const BigInteger&) const = default;

 private:
  std::string digits_;
};

/// The types a field may have. Digests have their indexes: append, never reorder. LazyBytes cannot
/// be sent between processes.
using ValueBase = std::variant<SharedBytes, std::string, std::int64_t, double, Tensor, List,
                               Mapping, LazyBytes, Null, bool, Tuple, BigInteger>;

/// How many lists, tuples and mappings of a field may lie in one another if it leaves a process.
inline constexpr int kMaxValueDepth = 64;

/// One field: bytes of a part, text, a number, a tensor, a collection of values, bytes that are
/// fetched on demand, nothing, a truth value, or an integer of any size.
struct Value : ValueBase {
  using Base = ValueBase;
  using Base::Base;
  const Base& base() const { return *this; }
  Base& base() { return *this; }
};

/// The tar or JSONL file that samples came from; shared by all samples read from it.
struct SourceShard {
  std::string dataset_path;
  std::string shard_name;  ///< as in .info.json
  /// The labels of the dataset, from dataset.yaml and the metadatasets that contain it: a JSON
  /// object.
  std::string subflavors = "{}";
};

/// Where a sample came from, or data that was joined or cooked into it.
struct SampleSource {
  std::shared_ptr<const SourceShard> shard;
  std::int64_t index_in_shard = 0;
  ByteRange bytes = {};      ///< in the uncompressed tar or the JSONL file, headers included
  std::uint32_t sample = 0;  ///< position in Sample::keys of the sample it belongs to
  /// XXH3-64 of `bytes` when the dataset was prepared; 0: not known, or not requested.
  std::uint64_t checksum = 0;
};

struct Sample {
  /// The key of the sample; in a batch, the keys of its samples in order.
  Keys keys;
  /// Rebuilds exactly this sample or batch: SavableDataLoader::restore_sample().
  RestoreKey restore_key;
  /// Parts in the order of the tar; in a batch, the fields of the batch.
  Mapping fields;
  /// In the order of `keys`, at least one per key.
  std::vector<SampleSource> sources;
  /// Which micro batch of the job this is. Loaders set it on the batches that next() returns.
  /// Samples inside a pipeline and results of restore_sample() have none. Neither have batches that
  /// an adapter cut, joined or repeated. It is no part of the content: digests and certificates
  /// leave it out.
  std::optional<BatchPlace> place = std::nullopt;

  // Access by name and type. Throws Error: kNotFound that lists the existing fields if there is no
  // field `name`; kInvalidArgument that says what the field holds if it is of another type. The
  // result views or shares the memory of the field.

  /// The field `name`.
  const Value& at(std::string_view name) const;
  /// The bytes of a part. Lazy bytes are not fetched, they are an error.
  const SharedBytes& bytes(std::string_view name) const;
  const Tensor& tensor(std::string_view name) const;
  /// A text, or the bytes of a part as text. That they are UTF-8 is not checked.
  std::string_view text(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  /// A number; an integer is converted.
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const List& list(std::string_view name) const;
  const Mapping& mapping(std::string_view name) const;
  const Tuple& tuple(std::string_view name) const;
  const BigInteger& big_integer(std::string_view name) const;
  /// Of a list, as a batch has for each part: bytes() of each element.
  std::vector<SharedBytes> bytes_list(std::string_view name) const;
  /// text() of each element of a list.
  std::vector<std::string_view> text_list(std::string_view name) const;

  /// Null if there is no field `name`.
  const Value* find(std::string_view name) const;

  /// Replaces the field `name`, or adds it behind the others.
  void set(std::string_view name, Value value);
};

/// What a value is, for messages: "float32 (3, 224, 224)", "a text of 12 bytes", "a list of 4".
std::string describe(const Value& value);

/// The first source of the sample at `position` in `keys`; the only one if its data was not joined.
/// Throws Error (kNotFound).
const SampleSource& source_of(const Sample& sample, std::size_t position);

/// XXH3-64 over names and contents of all fields, in order: equal digests mean equal data. Excludes
/// keys, sources and the place. Fetches lazy bytes and hashes them like other bytes.
std::uint64_t digest(const Sample& sample);

/// Total bytes of all payloads in memory (parts, tensors, texts). Lazy bytes count as 0.
std::uint64_t payload_bytes(const Sample& sample);

}  // namespace energon
