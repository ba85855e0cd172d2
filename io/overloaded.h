// Several callables as one, for std::visit: a new alternative of the variant does not compile until
// each walk over it says what becomes of it.

#pragma once

namespace energon {

template <class... Callables>
struct Overloaded : Callables... {
  using Callables::operator()...;
};
template <class... Callables>
Overloaded(Callables...) -> Overloaded<Callables...>;  // clang 14 deduces nothing for aggregates

}  // namespace energon
