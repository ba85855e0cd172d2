// Why a part cannot be decoded, in words.

#pragma once

#include <exception>
#include <string>

namespace energon::cli {

/// The message of `error`, without the name of the part that SampleDecoder puts in front, and with
/// the byte of the part if the error knows it.
std::string reason_of_failure(const std::exception& error);

}  // namespace energon::cli
