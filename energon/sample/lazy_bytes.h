// Bytes of a sample that are fetched when they are asked for: a large file that only the samples of
// a pack need.
//
// Lazy bytes live in the process that made them. A batch with such a field is refused with the
// field's name, so call get() before (postencode_sample, encode_sample).

#pragma once

#include <memory>
#include <string>

#include "io/bytes.h"

namespace energon {

class LazySource {
 public:
  virtual ~LazySource() = default;

  /// The same bytes each time, as often as wanted, in any thread. Throws Error.
  virtual SharedBytes get() = 0;
  /// Which bytes, for messages: "file '000123.jpg' of /data/images".
  virtual std::string describe() const = 0;
};

/// Cheap to copy: copies share the source. Thread-safe.
class LazyBytes {
 public:
  /// Throws Error (kInvalidArgument) without a source.
  explicit LazyBytes(std::shared_ptr<LazySource> source);

  /// Throws what the source throws; Error (kInvalidArgument) if this was moved from.
  SharedBytes get() const;
  std::string describe() const;

 private:
  std::shared_ptr<LazySource> source_;
};

}  // namespace energon
