// Bytes of a sample that are fetched on demand, such as a large file that is needed only by samples
// selected for a pack.
//
// Lazy bytes live in the process that made them. A batch that contains them is rejected with an
// error that names the field, so call get() earlier, in postencode_sample or encode_sample.

#pragma once

#include <memory>
#include <string>

#include "io/bytes.h"

namespace energon {

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

}  // namespace energon
