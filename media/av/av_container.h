// Checks the outermost structure of a container before FFmpeg reads it.
//
// FFmpeg treats a truncated Matroska, AVI, Ogg or FLV file as a shorter one. These checks make
// truncation an error. They also refuse MP4 tables that are small in the file and huge in memory.
// Formats: ISO/IEC 14496-12 (MP4), RFC 9559 (Matroska), RFC 3533 (Ogg), RIFF, Adobe FLV 10.1,
// ISO/IEC 13818-7 (ADTS).

#pragma once

#include <cstdint>

#include "io/bytes.h"

namespace energon {

enum class AvContainer : std::uint8_t { kOther, kMp4, kMatroska, kRiff, kOgg, kFlac, kFlv, kAdts };

/// The container by its first bytes; kOther for MP3 and for files that are not sound or video.
AvContainer recognize_av_container(ByteView file);

/// Throws Error (kCorruptData) with the byte offset if the file ends before its container does, or
/// a part of the structure is damaged. Accepts files that do not declare their length (a Matroska
/// or WAV live stream, MP3).
void check_av_container(AvContainer container, ByteView file);

/// The big-endian number of `size` bytes at `offset`, which must be inside `bytes`.
std::uint64_t big_endian_at(ByteView bytes, std::uint64_t offset, int size);

}  // namespace energon
