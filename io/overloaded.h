// Several callables as one, for std::visit: a new alternative of the variant does not compile until
// each walk over it says what becomes of it.

#pragma once

namespace energon {

template <class... Callables>
struct Overloaded : Callables... {
  using Callables::operator()...;
};

}  // namespace energon
