// What a container's outermost structure says about its own length, checked before FFmpeg reads it.
//
// FFmpeg takes a truncated Matroska, AVI, Ogg or FLV file for one that ends early. These checks
// make it an error. They also refuse MP4 tables that are small in the file and huge in memory.
// Formats: ISO/IEC 14496-12 (MP4), RFC 9559 (Matroska), RFC 3533 (Ogg), RIFF, Adobe FLV 10.1,
// ISO/IEC 13818-7 (ADTS).

#pragma once

#include <cstdint>

#include "io/bytes.h"

namespace energon {

enum class AvContainer : std::uint8_t { kOther, kMp4, kMatroska, kRiff, kOgg, kFlac, kFlv, kAdts };

/// By its first bytes. kOther: MP3, or no sound or video at all.
AvContainer recognize_av_container(ByteView file);

/// Throws Error (kCorruptData) with byte offset if the file ends before its container does, or a
/// part of the structure is damaged. A file that does not say how long it is (a live stream of
/// Matroska or WAV, MP3) passes.
void check_av_container(AvContainer container, ByteView file);

/// Big-endian number of `size` bytes at `offset`, which must lie in `bytes`.
std::uint64_t big_endian_at(ByteView bytes, std::uint64_t offset, int size);

}  // namespace energon
