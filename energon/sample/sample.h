// A sample, or a batch of samples: one concrete, self-describing type.
//
// Fields are ordered, named values. In a sample read from a shard they are its parts, as bytes;
// user functions may store any other value. Because the type describes itself, a sample can be
// written into shared memory, displayed, hashed and restored by code that does not know which stage
// made it.
//
// This header also defines what a sample consists of (keys, place in the job, bytes fetched on
// demand), and operations that stages need on any sample: checking field names and reusing memory.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "energon/sample/restore_key.h"
#include "io/bytes.h"

namespace energon {

// The place of a batch within the job.

/// A value type. The logical shards of a job take turns; each turn is one batch.
struct BatchPlace {
  int logical_shard = 0;   ///< logical shard that made the batch
  std::int64_t epoch = 0;  ///< epoch of the batch
  std::int64_t turn = 0;   ///< batches of the logical shard before it in that epoch

  /// The number of this micro batch in its epoch, in a job of `logical_shards` logical shards. It
  /// counts over the whole job as if all logical shards took turns until the end, so it is the same
  /// on any layout with as many logical shards. Numbers of logical shards that have ended are left
  /// out.
  std::int64_t micro_batch(int logical_shards) const {
    return turn * logical_shards + logical_shard;
  }

  bool operator==(const BatchPlace&) const = default;
};

// The keys of a sample or of the samples of a batch, in one flat array of characters.

/// A list of keys. Access returns a view, valid until the list is changed or destroyed. Clearing
/// keeps the memory, so a list can be refilled without allocations.
class Keys {
 public:
  class const_iterator;
  using value_type = std::string_view;
  using iterator = const_iterator;
  using size_type = std::size_t;

  Keys() = default;
  Keys(std::initializer_list<std::string_view> keys);
  /// Implicit, so that a vector of strings can be assigned.
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
  /// Removes all keys and keeps the memory.
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
  // Requires: both belong to the same list.
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

// Bytes of a sample that are fetched on demand, such as a large file that is needed only by samples
// selected for a pack.
//
// Lazy bytes live in the process that made them. A batch that contains them is rejected with an
// error that names the field, so call get() earlier, in postencode_sample or encode_sample.

class LazySource {
 public:
  virtual ~LazySource() = default;

  /// Returns the same bytes on every call. May be called any number of times, from any thread.
  /// Throws Error.
  virtual SharedBytes get() = 0;
  /// Describes the bytes for messages: "file '000123.jpg' of /data/images".
  virtual std::string describe() const = 0;
};

/// Cheap to copy: copies share the source. Thread-safe.
class LazyBytes {
 public:
  /// Throws Error (kInvalidArgument) if `source` is null.
  explicit LazyBytes(std::shared_ptr<LazySource> source);

  /// Throws what the source throws, or Error (kInvalidArgument) if this object was moved from.
  SharedBytes get() const;
  std::string describe() const;

 private:
  std::shared_ptr<LazySource> source_;
};

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

/// A list of fixed length, which languages such as Python distinguish from a List. Batch functions
/// treat it as one value.
struct Tuple {
  List items;
};

/// An integer of any size, as decimal text.
class BigInteger {
 public:
  /// Decimal digits without leading zeros, after a '-' if negative. Throws Error (kInvalidArgument)
  /// for anything else.
  explicit BigInteger(std::string digits);
  static bool is_valid(std::string_view digits);

  const std::string& digits() const { return digits_; }
  bool operator==(const BigInteger&) const = default;

 private:
  std::string digits_;
};

/// The types a field may have. Digests include the index of the type: append, never reorder.
/// LazyBytes cannot be sent between processes.
using ValueBase = std::variant<SharedBytes, std::string, std::int64_t, double, Tensor, List,
                               Mapping, LazyBytes, Null, bool, Tuple, BigInteger>;

/// Maximum nesting depth of lists, tuples and mappings in a field that is sent between processes.
inline constexpr int kMaxValueDepth = 64;

/// One field: bytes of a part, a string, a number, a tensor, a collection of values, bytes fetched
/// on demand, null, a boolean, or an integer of any size.
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
  /// XXH3-64 of `bytes` when the dataset was prepared. 0 if unknown or not requested.
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
  /// Samples inside a pipeline, results of restore_sample(), and batches that an adapter cut,
  /// joined or repeated have none. Not part of the content: digests and certificates ignore it.
  std::optional<BatchPlace> place = std::nullopt;

  // Access by name and type. If there is no field `name`, throws Error (kNotFound) that lists the
  // existing fields; if it has another type, Error (kInvalidArgument) that describes its value. The
  // result views or shares the memory of the field.

  /// The field `name`.
  const Value& at(std::string_view name) const;
  /// The bytes of a part. Lazy bytes are an error; they are not fetched.
  const SharedBytes& bytes(std::string_view name) const;
  const Tensor& tensor(std::string_view name) const;
  /// A string, or the bytes of a part as a string. Does not check for valid UTF-8.
  std::string_view text(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  /// A floating-point number, or an integer converted to one.
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const List& list(std::string_view name) const;
  const Mapping& mapping(std::string_view name) const;
  const Tuple& tuple(std::string_view name) const;
  const BigInteger& big_integer(std::string_view name) const;
  /// bytes() of each element of a list. A batch has such a list for each part.
  std::vector<SharedBytes> bytes_list(std::string_view name) const;
  /// text() of each element of a list.
  std::vector<std::string_view> text_list(std::string_view name) const;

  /// Null if there is no field `name`.
  const Value* find(std::string_view name) const;

  /// Replaces the field `name`, or appends it.
  void set(std::string_view name, Value value);
};

/// Describes a value for messages: "float32 (3, 224, 224)", "a string of 12 bytes", "a list of 4".
std::string describe(const Value& value);

/// The first source of the sample at `position` in `keys`; the only one if its data was not joined.
/// Throws Error (kNotFound).
const SampleSource& source_of(const Sample& sample, std::size_t position);

/// XXH3-64 over names and contents of all fields, in order: equal digests mean equal data. Excludes
/// keys, sources and the place. Lazy bytes are fetched and hashed like other bytes.
std::uint64_t digest(const Sample& sample);

/// Total bytes of all payloads in memory (parts, tensors, strings). Lazy bytes count as 0.
std::uint64_t payload_bytes(const Sample& sample);

// Checks that field names are unique within a sample, a batch or a mapping.
//
// Fields are an ordered list, not a map, so nothing else rejects duplicate names. The check runs on
// fields that a user function returned, and before samples are batched.

/// Returns a name that occurs twice, or nullopt if all names are unique. The result views `fields`.
std::optional<std::string_view> find_twice(const Mapping& fields);

/// Throws Error (kInvalidArgument) that names the field and `owner` ("sample '0001'") if a name
/// occurs twice. Does not check nested mappings.
void check_field_names(const Mapping& fields, std::string_view owner);

/// Checks a sample or batch returned by a user function in the same way. Also throws if one of its
/// sources has no shard.
void check_made(const Sample& sample);

// Spare samples: emptied samples whose memory is reused.
//
// A stage that moves the content out of samples, such as batching, returns the empty samples here,
// and readers take their samples from here. So in a running pipeline, the lists of a sample cost no
// allocations.

/// An empty sample. Each thread has its own spare samples.
Sample take_spare_sample();

/// Empties `samples` and keeps their memory for reuse: of at most kMostSpareSamples samples, and of
/// none with many fields.
void keep_spare_samples(std::vector<Sample>& samples);

inline constexpr std::size_t kMostSpareSamples = 4096;

}  // namespace energon
