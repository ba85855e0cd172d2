// How exactly sound is reached.

#pragma once

#include <cstdint>

namespace energon {

/// How sound is reached that is not at the beginning.
enum class AudioAccess : std::uint8_t {
  /// Bit-exact: every clip is what decoding the whole sound would give. Codecs whose decoders carry
  /// state without end (AAC, Opus) are decoded from the start of the file, or on from the last
  /// clip.
  kExact,
  /// Those are decoded from a little before the clip, too: at exactly the right place, but noise
  /// that the decoder makes up differs a little. The samples depend on the clip alone, not on the
  /// clips before it.
  kFast,
};

}  // namespace energon
