// Decodes parts to find out whether they can be decoded: `energon lint --decode`.

#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "io/lint/lint.h"
#include "media/decode/sample_decoder.h"

namespace energon::cli {

/// Thread-safe.
class PartCheck {
 public:
  PartCheck();

  /// Reads and decodes the part, if its name is one that SampleDecoder decodes: images to their
  /// last pixel, sound and video to their end. Returns "cannot be decoded: …"; nothing if it can be
  /// or stays bytes. Throws what `read` throws.
  std::optional<std::string> check(std::string_view part, const ReadPart& read);

  /// Parts that were decoded, or could not be.
  std::int64_t count() const { return count_; }

 private:
  void decode(std::string_view part, const SharedBytes& content);

  const SampleDecoder decoder_;
  HeapBufferPool memory_;
  std::atomic<std::int64_t> count_ = 0;
};

}  // namespace energon::cli
