// Combines several callables into one visitor for std::visit, so that code does not compile until
// every visitor handles each alternative of the variant.

#pragma once

namespace energon {

template <class... Callables>
struct Overloaded : Callables... {
  using Callables::operator()...;
};
template <class... Callables>
Overloaded(Callables...) -> Overloaded<Callables...>;  // clang 14 deduces nothing for aggregates

}  // namespace energon
