// The message of an Error that a call should throw.

#pragma once

#include <string>

#include "io/error.h"

namespace energon::testing {

/// what() of the Error with `code` that `body` throws; otherwise a description of what happened
/// instead.
template <class Body>
std::string error_of(const Body& body, ErrorCode code) {
  try {
    body();
  } catch (const Error& error) {
    return error.code() == code ? error.what()
                                : std::string(to_string(error.code())) + " instead of " +
                                      std::string(to_string(code)) + ": " + error.what();
  }
  return "no error";
}

}  // namespace energon::testing
