// libsentencepiece, loaded when it is first needed and not linked. Internal to media/tokens.
//
// The library of Debian exports a copy of Protocol Buffers of its own. In a program that is linked
// with it and with libprotobuf, as libtorch is, each calls functions of the other's version, and
// the program crashes before main(). Loaded later and by itself it keeps its functions to itself.
//
// Methods of SentencePieceProcessor are virtual, so they are called through the object. The few
// other functions are found by name.

#pragma once

#include <sentencepiece_processor.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>

namespace energon {

/// What the library made; ended by its own destructor.
using PieceProcessor = std::unique_ptr<sentencepiece::SentencePieceProcessor>;

/// Loads the library if that has not happened yet, and silences it, for the whole process. Throws
/// Error (kUnsupported) that names the package if it cannot be loaded. Thread-safe.
PieceProcessor new_piece_processor();

/// The message of a status that the library has returned; nothing if it is no failure. Ends it.
std::optional<std::string> end_status(sentencepiece::util::Status& status);

/// Runs `call`, which returns a status of the library, and gives the message of a failure.
template <class Call>
std::optional<std::string> problem_of(const Call& call) {
  using Status = sentencepiece::util::Status;
  static_assert(std::is_same_v<decltype(call()), Status>);
  // Not a variable: its destructor would have to be linked.
  alignas(Status) std::byte storage[sizeof(Status)];
  return end_status(*new (storage) Status(call()));
}

}  // namespace energon
