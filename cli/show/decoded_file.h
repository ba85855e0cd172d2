// What a decoder made, as a file or as text.

#pragma once

#include <string>

#include "energon/sample/sample.h"

namespace energon::cli {

/// Bytes of a file for `value`, in the format that the suffix of `path` names: .npy any tensor;
/// .png an image, (H, W), (H, W, C) or (C, H, W) of uint8 or of float32 from 0 to 1; .wav the sound
/// of a mapping that a decoder of sound and video made; .txt a text; .json any value, with dtype,
/// shape and digest in place of the content of tensors and bytes. Throws Error (kInvalidArgument)
/// if the value cannot be written so, with what can.
std::string decoded_file(const std::string& path, const Value& value);

/// The same as .json.
std::string value_json(const Value& value);

}  // namespace energon::cli
