// What a decoder made, as a file or as text; or why it made nothing.

#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon::cli {

/// Bytes of a file for `value`, in the format that the suffix of `path` names: .npy any tensor;
/// .png an image, (H, W), (H, W, C) or (C, H, W) of uint8 or of float32 from 0 to 1; .wav the sound
/// of a mapping that a decoder of sound and video made; .txt a text; .json any value, with dtype,
/// shape and digest in place of the content of tensors and bytes. Throws Error (kInvalidArgument)
/// if the value cannot be written so, with what can.
std::string decoded_file(const std::string& path, const Value& value);

/// The same as .json.
std::string value_json(const Value& value);

/// A PNG file. `pixels` is uint8 (height, width, channels): gray, gray and alpha, RGB or RGBA.
/// Throws Error: kInvalidArgument for other numbers of channels or bytes and for sides that are not
/// 1 to 65,535, kInternal if libpng fails.
std::string png_of_pixels(ByteView pixels, std::int64_t width, std::int64_t height, int channels);

/// Why a part cannot be decoded: the message of `error`, without the name of the part that
/// SampleDecoder puts in front, and with the byte of the part if the error knows it.
std::string reason_of_failure(const std::exception& error);

}  // namespace energon::cli
