// Writes decoded values as files or as text, and explains why a part cannot be decoded.

#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon::cli {

/// Bytes of a file for `value`, in the format that the suffix of `path` names: .npy for any tensor;
/// .png for an image, (H, W), (H, W, C) or (C, H, W) of uint8 or of float32 from 0 to 1; .wav for
/// the sound in a mapping that a decoder of sound and video returned; .txt for a string; .json for
/// any value, with dtype, shape and digest in place of the content of tensors and bytes. Throws
/// Error (kInvalidArgument) if the format cannot hold the value; the message names formats that
/// can.
std::string decoded_file(const std::string& path, const Value& value);

/// The content of a .json file for `value`.
std::string value_json(const Value& value);

/// A PNG file. `pixels` is uint8 (height, width, channels): gray, gray and alpha, RGB or RGBA.
/// Throws Error: kInvalidArgument if the number of channels or bytes is wrong or a side is not 1 to
/// 65,535, kInternal if libpng fails.
std::string png_of_pixels(ByteView pixels, std::int64_t width, std::int64_t height, int channels);

/// Why a part cannot be decoded: the message of `error` without the name of the part, which
/// SampleDecoder prepends, and with the byte offset in the part if `error` contains it.
std::string reason_of_failure(const std::exception& error);

}  // namespace energon::cli
