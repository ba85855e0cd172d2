// The text form of restore keys (energon/sample/restore_key.h), to and from their byte form.
// Private to energon/sample.

#pragma once

#include <string>
#include <string_view>

namespace energon::key_form {

/// The text form of `bytes`, the byte form of one key.
std::string to_text(std::string_view bytes);

/// The byte form of `text`. Throws Error (kInvalidArgument) with the position of the first invalid
/// character.
std::string parse_text(std::string_view text);

}  // namespace energon::key_form
