// Lengths, rates and sizes of a sound or a video, exact where its container only guesses.

#pragma once

#include "io/bytes.h"
#include "io/index/media_metadata.h"
#include "media/decode_limits.h"

namespace energon {

/// Reads all packets, decodes the first frame of the video and all of the sound; the frame gives
/// the size. A duration is that of the stream itself, from its first frame or sample to the end of
/// its last: of the sound, the samples by the rate. Pictures attached to sound are no video. Throws
/// Error as AvDecoder (media/av/av_decoder.h). Thread-safe.
MediaMetadata read_av_file_metadata(ByteView file, const DecodeLimits& limits = {});

}  // namespace energon
