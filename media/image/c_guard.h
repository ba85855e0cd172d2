// Calls C libraries that leave by longjmp(). Internal to media/image.

#pragma once

#include <csetjmp>

namespace energon {

/// Runs `body`; false if it left by longjmp(jump). Requires: `body` and what it calls have no
/// object with a destructor, for those would not be destroyed.
template <class Body>
bool runs_to_end(std::jmp_buf& jump, const Body& body) {
  if (setjmp(jump) != 0) {
    return false;
  }
  body();
  return true;
}

}  // namespace energon
